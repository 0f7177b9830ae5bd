-- settle moves reservations of one sub-stock, each at most once and only forward.
-- KEYS  1 run  2 buyers  3 left behind (queued, but out of the outbox)
-- ARGV  1 number of sub-stocks  2 channel of events  3 first line of an event
--       then for each settlement: buyer, ticket's last 20 characters, state it goes to, 1 if its
--       units do not come back, and the rest of the record's line
-- Answers {code}: 0 the sub-stock is not there  1 another number of sub-stocks
--         {2, answers, available}: answers has one digit per settlement, 0 never heard of it,
--         1 it stays as it is, 2 it moved.
local HEAD, EACH, FINISHED_MAX = 3, 5, 16

local run, buyers, behind = KEYS[1], KEYS[2], KEYS[3]
local meta = redis.call('HMGET', run, 'e', 'k', 'a', 'q', 'w', 'd', 'n', 'u', 'b', 'r', 'c')
if not meta[1] then return {0} end
if meta[2] ~= ARGV[1] then return {1} end
local available, returns, moves = tonumber(meta[3]), tonumber(meta[10]), tonumber(meta[11])
local units = {['0'] = tonumber(meta[4]), ['1'] = tonumber(meta[5]), ['2'] = tonumber(meta[6])}
local reservations, left, waiting = tonumber(meta[7]), tonumber(meta[8]), tonumber(meta[9])

local count = (#ARGV - HEAD) / EACH
local get = {'HMGET', buyers}
for i = 1, count do get[i + 2] = ARGV[HEAD + EACH * (i - 1) + 1] end
local found = redis.call(unpack(get))

-- follows tells whether a state may come after another. Nothing comes after a paid,
-- cancelled, expired or failed one, and what has an order has not failed.
local function follows(to, from)
  if from == '0' then return to ~= '0' end
  return from == '1' and to ~= '0' and to ~= '1' and to ~= '5'
end

-- trim forgets the finished purchase that was reserved first, if there are too many.
local function trim(list)
  local finished, oldest = 0, nil
  for i, p in ipairs(list) do
    if not LIVE[p.state] then
      finished, oldest = finished + 1, i
    end
  end
  if finished > FINISHED_MAX then table.remove(list, oldest) end
end

local parsed, dirty, answers, events, forget = {}, {}, {}, {}, {}
local released = false
for i = 1, count do
  local base = HEAD + EACH * (i - 1)
  local buyer, ticket, to, writtenOff, rest =
    ARGV[base + 1], ARGV[base + 2], ARGV[base + 3], ARGV[base + 4], ARGV[base + 5]
  if not parsed[buyer] then parsed[buyer] = parse(found[i] or '') end
  local purchase
  for _, p in ipairs(parsed[buyer]) do
    if p.ticket == ticket then purchase = p end
  end
  local from = purchase and (purchase.state == '6' and '0' or purchase.state)
  if not purchase then
    answers[i] = '0'
  elseif not follows(to, from) then
    answers[i] = '1'
  else
    answers[i] = '2'
    if purchase.state == '0' then waiting = waiting - 1 end
    if purchase.state == '6' then forget[#forget + 1] = ticket end
    if from == '0' then
      reservations, left = reservations - 1, left + 1
    end
    units[from] = units[from] - purchase.quantity
    if units[to] then units[to] = units[to] + purchase.quantity end
    purchase.state, purchase.rest = to, rest
    local free = false
    if not LIVE[to] then
      if writtenOff ~= '1' then
        available, returns, moves = available + purchase.quantity, returns + 1, moves + 1
        free, released = true, true
      end
      trim(parsed[buyer])
    end
    dirty[buyer] = true
    events[#events + 1] = (free and 'F ' or 'S ') .. ticket .. ' ' .. buyer
  end
end

if #events > 0 then
  local set = {'HSET', buyers}
  for buyer in pairs(dirty) do
    set[#set + 1] = buyer
    set[#set + 1] = format(parsed[buyer])
  end
  redis.call(unpack(set))
  redis.call('HSET', run, 'a', int(available), 'q', int(units['0']), 'w', int(units['1']), 'd', int(units['2']),
    'n', int(reservations), 'u', int(left), 'b', int(waiting), 'r', int(returns), 'c', int(moves))
  if #forget > 0 then redis.call('HDEL', behind, unpack(forget)) end
  if released then events[#events + 1] = 'U' end
  redis.call('PUBLISH', ARGV[2], ARGV[3] .. '\n' .. table.concat(events, '\n'))
end
return {2, table.concat(answers), available}
