-- control changes what may change of one sub-stock.
-- KEYS  1 run
-- ARGV  1 number of sub-stocks  2 paused, 0 or 1  3 end, µs, "" to leave it
--       4 channel of events, "" to tell nobody  5 the event
-- Answers 0 not loaded  1 another number of sub-stocks  2 it was so already  3 changed
local meta = redis.call('HMGET', KEYS[1], 'k', 'o', 'p', 'f')
if not meta[1] or meta[2] ~= '1' then return 0 end
if meta[1] ~= ARGV[1] then return 1 end
local ends = ARGV[3] == '' and meta[4] or ARGV[3]
local answer = 2
if meta[3] ~= ARGV[2] or meta[4] ~= ends then
  redis.call('HSET', KEYS[1], 'p', ARGV[2], 'f', ends)
  answer = 3
end
if answer == 3 and ARGV[4] ~= '' then redis.call('PUBLISH', ARGV[4], ARGV[5]) end
return answer
