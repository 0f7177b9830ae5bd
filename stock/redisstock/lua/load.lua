-- load puts one sub-stock of a run in place of whatever was there, in one step.
-- KEYS  1 run  2 buyers  3 left behind  4 transfers  5 restocks
--       6 outbox, a stream  7 outbox, a list  8 its messages  9 those that are in hand
--       10 buyers that were put aside for this load
-- ARGV  1 epoch  2 number of sub-stocks  3 start, µs  4 end, µs  5 limit  6 paused, 0 or 1
--       7 units available  8 awaiting payment  9 paid  10 least counter of returns
--       11 when the keys expire, Unix ms  12 consumer group  13 1 to sell at once, else 0
--       14 how many buyers were put aside  15 kind of the outbox: 0 stream, 1 list
-- Answers 0 done  1 a later epoch is there  2 this epoch is there and sells
--         3 what was put aside is not all there
local run = KEYS[1]
local old = redis.call('HMGET', run, 'e', 'o', 'r')
if old[1] then
  if tonumber(old[1]) > tonumber(ARGV[1]) then return 1 end
  if old[1] == ARGV[1] and old[2] == '1' then return 2 end
end
local aside = tonumber(ARGV[14])
if aside > 0 and redis.call('HLEN', KEYS[10]) ~= aside then return 3 end
local returns = math.max(tonumber(ARGV[10]), tonumber(old[3] or '0') + 1)

redis.call('UNLINK', unpack(KEYS, 1, 9))
if aside > 0 then redis.call('RENAME', KEYS[10], KEYS[2]) end
-- Each key has a field or a group from now on: one that is missing later was lost, and a
-- slot that is being moved can be told from one that is not there.
for i = 2, 5 do redis.call('HSET', KEYS[i], '', '') end
if ARGV[15] == '1' then
  redis.call('RPUSH', KEYS[7], '')
  redis.call('HSET', KEYS[8], '', '')
  redis.call('HSET', KEYS[9], '', '')
else
  redis.call('XGROUP', 'CREATE', KEYS[6], ARGV[12], '0', 'MKSTREAM')
end
redis.call('HSET', run, 'e', ARGV[1], 'k', ARGV[2], 'o', ARGV[13], 's', ARGV[3], 'f', ARGV[4], 'l', ARGV[5],
  'p', ARGV[6], 'x', ARGV[11], 'a', ARGV[7], 'q', '0', 'w', ARGV[8], 'd', ARGV[9], 'n', '0', 'u', '0', 'b', '0',
  'r', string.format('%d', returns), 'c', '0', 'y', '0', 'z', ARGV[15])
for i = 1, 9 do redis.call('PEXPIREAT', KEYS[i], ARGV[11]) end
return 0
