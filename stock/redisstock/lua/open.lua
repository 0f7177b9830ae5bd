-- open lets a sub-stock that a load has put in place sell.
-- KEYS  1 run
-- ARGV  1 epoch
-- Answers 1 if it sells under this epoch now, else 0.
if redis.call('HGET', KEYS[1], 'e') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'o', '1')
return 1
