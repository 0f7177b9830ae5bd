-- drop forgets one sub-stock.
-- KEYS  all that a sub-stock may have
-- ARGV  1 channel of events, "" to tell nobody  2 the event
-- Answers 1 if it was there, else 0.
if redis.call('UNLINK', unpack(KEYS)) == 0 then return 0 end
if ARGV[1] ~= '' then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return 1
