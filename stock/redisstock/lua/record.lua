-- record reads and writes what a buyer holds. It stands in front of other scripts.
--
-- A buyer's record is one line per purchase, the latest first:
--   token state rest                               (no space between state and rest)
-- token  the ticket's last 20 characters (the run's own part of it is the same for all), then
--        "quantity:key" unless that is 1 without a key, then "/slot" unless that is 1. The key is
--        a digest.
-- state  0 queued  6 queued, but out of the outbox  1 awaiting payment  2 paid
--        3 cancelled  4 expired  5 failed
-- rest   of 0 and 6 the number of the reservation in its sub-stock, or of the first that was
--        decided with it; of 1 to 4 the order; of 5 the reason
-- It is that short since there is one for each unit that is sold.
local LIVE = {['0'] = true, ['6'] = true, ['1'] = true, ['2'] = true}

-- details are a token's quantity, key and slot.
local function details(token)
  if #token == 20 then return 1, '', 1 end
  local quantity, key, slot = string.match(token, '^(%d*):?([%w_-]*)/?(%d*)$', 21)
  return tonumber(quantity) or 1, key, tonumber(slot) or 1
end

local function parse(text)
  local list = {}
  for token, state, rest in string.gmatch(text, '(%S+) (%d)([^\n]*)') do
    local quantity, key, slot = details(token)
    list[#list + 1] = {
      token = token, ticket = string.sub(token, 1, 20), state = state, rest = rest,
      quantity = quantity, key = key, slot = slot,
    }
  end
  return list
end

local function format(list)
  local lines = {}
  for i, p in ipairs(list) do lines[i] = p.token .. ' ' .. p.state .. p.rest end
  return table.concat(lines, '\n')
end

-- stateOf is the state of a ticket's purchase in a record, nil if it is not there.
local function stateOf(text, ticket)
  local at = string.find('\n' .. text, '\n' .. ticket, 1, true)
  return at and string.match(text, '^%S* (%d)', at)
end

-- int writes a number whole, however great; Lua's own way keeps 14 digits.
local function int(n) return string.format('%d', n) end

