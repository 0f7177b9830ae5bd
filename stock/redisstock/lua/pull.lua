-- pull gives messages of an outbox that is a list to a consumer, and puts back in front what
-- consumers have that are dead.
-- KEYS  1 list  2 messages  3 taken
-- ARGV  1 consumer  2 how many  3 1 to tell what the consumer has already, too
--       4 how long a consumer lives without a sign, ms; "" not to look for dead ones
-- Answers {id, attempt, text, …}; nil if there is no such outbox.
--
-- See keys.go for what the keys hold. The first element of the list is the id that was given
-- last, or empty: it stands for nothing, and keeps the key.
local list, messages, taken = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HLEN', taken) == 0 then return false end
local me, answer, now = ARGV[1], {}, nil

local function clock()
  if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return now
end

-- tell adds messages to the answer, and gives those to the consumer that are not his yet.
-- One without a text was acknowledged by somebody who was taken for dead.
local function tell(ids, mine)
  local texts, counts = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', taken, unpack(ids))
  local set, gone = {'HSET', taken, '@' .. me, int(clock())}, {}
  for i, id in ipairs(ids) do
    if texts[i] then
      local attempt = tonumber(string.match(counts[i] or '0', '^%d+')) + (mine and 0 or 1)
      answer[#answer + 1] = id
      answer[#answer + 1] = attempt
      answer[#answer + 1] = texts[i]
      set[#set + 1] = id
      set[#set + 1] = int(attempt) .. ' ' .. me
    else
      gone[#gone + 1] = id
    end
  end
  if not mine then redis.call(unpack(set)) end
  if #gone > 0 then redis.call('HDEL', taken, unpack(gone)) end
end

if ARGV[3] == '1' then
  local mine = {}
  for id, by in each(taken) do
    if string.match(by, ' (.*)$') == me and #mine < GIVE_MAX then mine[#mine + 1] = id end
  end
  if #mine > 0 then tell(sorted(mine), true) end
end
if ARGV[4] ~= '' then
  local lives = {}
  for id, last in each(taken) do
    local name = string.match(id, '^@(.*)$')
    if name then
      lives[name] = name == me or clock() - last <= tonumber(ARGV[4])
      if not lives[name] then redis.call('HDEL', taken, id) end
    end
  end
  giveBack(list, taken, function(by) return not lives[by] end)
end
local ids = redis.call('LRANGE', list, 1, ARGV[2])
if #ids > 0 then
  redis.call('LTRIM', list, #ids, -1)
  tell(ids, false)
end
return answer
