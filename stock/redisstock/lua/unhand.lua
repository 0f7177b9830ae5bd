-- unhand puts back in front of an outbox that is a list what a consumer has not
-- acknowledged, and forgets the consumer.
-- KEYS  1 list  2 taken
-- ARGV  1 consumer
-- Answers how many messages were put back; -1 if there is no such outbox.
local list, taken = KEYS[1], KEYS[2]
if redis.call('HLEN', taken) == 0 then return -1 end
local back = giveBack(list, taken, function(by) return by == ARGV[1] end)
redis.call('HDEL', taken, '@' .. ARGV[1])
return back
