-- restock changes the units of a run at one sub-stock, once per id. What is taken away
-- may take several calls, since units have to come here from others first.
-- KEYS  1 run  2 restocks
-- ARGV  1 number of sub-stocks  2 id  3 units  4 1 if there are no more than are here, else 0
--       5 channel of events  6 the event that tells of units
-- Answers {code}: 0 not loaded  1 another number of sub-stocks
--         {2, done, available}: it is done, now or before
--         {3, done so far, available}: more units have to come here
local run, restocks = KEYS[1], KEYS[2]
local meta = redis.call('HMGET', run, 'k', 'o', 'a', 'r', 'c')
if not meta[1] or meta[2] ~= '1' then return {0} end
if redis.call('EXISTS', restocks) == 0 then return {0} end
if meta[1] ~= ARGV[1] then return {1} end
local available = tonumber(meta[3])
local wanted, did = tonumber(ARGV[3]), 0
local before = redis.call('HGET', restocks, ARGV[2])
if before then
  local w, d, ended = string.match(before, '^(%S+) (%S+) (%S+)$')
  if ended == '1' then return {2, tonumber(d), available} end
  wanted, did = tonumber(w), tonumber(d)
end
local ended
if wanted >= 0 then
  available, did, ended = available + wanted, wanted, true
else
  local step = math.min(available, did - wanted)
  available, did = available - step, did - step
  ended = did == wanted or ARGV[4] == '1'
end
redis.call('HSET', restocks, ARGV[2], int(wanted) .. ' ' .. int(did) .. ' ' .. (ended and '1' or '0'))
if wanted > 0 then
  redis.call('HSET', run, 'a', int(available), 'r', int(tonumber(meta[4]) + 1), 'c', int(tonumber(meta[5]) + 1))
  redis.call('PUBLISH', ARGV[5], ARGV[6])
else
  redis.call('HSET', run, 'a', int(available))
end
return {ended and 2 or 3, did, available}
