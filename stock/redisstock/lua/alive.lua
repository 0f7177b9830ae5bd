-- alive says that a consumer of an outbox that is a list still works on what he has, so that
-- nobody takes it over.
-- KEYS  1 taken
-- ARGV  1 consumer
-- Answers 1; -1 if there is no such outbox.
if redis.call('HLEN', KEYS[1]) == 0 then return -1 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], '@' .. ARGV[1], int(time[1] * 1000 + math.floor(time[2] / 1000)))
return 1
