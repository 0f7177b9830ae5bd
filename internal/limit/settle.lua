-- settle adds what a gateway let through to what all of them have let through.
-- KEYS  one for each key of the limit, all in one slot: when its debt is paid, µs of Redis's clock
-- ARGV  1 interval between requests, µs  2 the most debt, µs
--       then for each key how many requests were let through
-- Answers for each key its debt afterwards, µs
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local known = redis.call('MGET', unpack(KEYS))
local debts = {}
for i, key in ipairs(KEYS) do
  local debt = math.max(0, (tonumber(known[i] or '') or 0) - now)
  debt = math.ceil(math.min(debt + ARGV[i + 2] * interval, most))
  redis.call('SET', key, string.format('%.0f', now + debt), 'PX', math.ceil(debt / 1000))
  debts[i] = debt
end
return debts
