-- taken reads what consumers of an outbox that is a list have in hand. It stands in front of
-- other scripts, behind record.
--
-- The hash has for each message that was ever given: id to "attempts consumer", or "attempts "
-- while it is in the list again; for each consumer that has taken something: "@" and his
-- name to his last sign of life, Unix ms; and the empty name.
local GIVE_MAX = 2000 -- What goes in one command; Lua's stack has an end.

-- each goes over the fields of a hash and their values, without the empty name.
local function each(hash)
  local all, i = redis.call('HGETALL', hash), -1
  return function()
    i = i + 2
    if all[i] == '' then i = i + 2 end
    return all[i], all[i + 1]
  end
end

-- sorted puts ids in the order in which the messages were put there.
local function sorted(ids)
  local at, order = {}, {}
  for _, id in ipairs(ids) do
    local us, n = string.match(id, '^(%d+)-(%d+)$')
    at[id] = {tonumber(us), tonumber(n)}
  end
  table.sort(ids, function(a, b)
    if at[a][1] ~= at[b][1] then return at[a][1] < at[b][1] end
    return at[a][2] < at[b][2]
  end)
  return ids
end

-- giveBack puts in front of the list what consumers have, if lost says so of the
-- consumer's name, and tells how many that were.
local function giveBack(list, taken, lost)
  local ids, attempts = {}, {}
  for id, by in each(taken) do
    local n, name = string.match(by, '^(%d+) (.+)$')
    if name and lost(name) then
      ids[#ids + 1], attempts[id] = id, n
    end
  end
  if #ids == 0 or redis.call('LLEN', list) == 0 then return 0 end
  sorted(ids)
  for i = #ids, 1, -1 do
    local id = ids[i]
    -- Behind the first element, which stands for nothing.
    if i == #ids then redis.call('LSET', list, 0, id) else redis.call('LPUSH', list, id) end
    redis.call('HSET', taken, id, attempts[id] .. ' ')
  end
  redis.call('LPUSH', list, '')
  return #ids
end

