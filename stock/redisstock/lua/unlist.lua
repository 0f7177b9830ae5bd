-- unlist takes a run out of the list of runs, if it is still listed as it was seen.
-- KEYS  1 list of runs
-- ARGV  1 run  2 how it was seen
-- Answers 1 if it was taken out, else 0.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
