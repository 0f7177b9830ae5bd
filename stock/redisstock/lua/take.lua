-- take adds units that are on their way here, each number of a giver once: what is at or
-- below its mark was added before, and does nothing.
-- KEYS  1 run  2 transfers
-- ARGV  1 epoch, then for each giver: giver, how many follow, and so many times number, units,
--       in order
-- Answers {code}: 0 not loaded, or another epoch
--         {1, available, mark, …}: the mark of each giver
local run, transfers = KEYS[1], KEYS[2]
local meta = redis.call('HMGET', run, 'e', 'o', 'a', 'c')
if meta[1] ~= ARGV[1] or meta[2] ~= '1' then return {0} end
if redis.call('EXISTS', transfers) == 0 then return {0} end
local available, sum, answer = tonumber(meta[3]), 0, {1, 0}
local i = 2
while i <= #ARGV do
  local field, count = 'i' .. ARGV[i], tonumber(ARGV[i + 1])
  local mark = tonumber(redis.call('HGET', transfers, field) or '0')
  local before = mark
  for j = i + 2, i + 2 * count, 2 do
    local number = tonumber(ARGV[j])
    if number > mark then
      mark, sum = number, sum + tonumber(ARGV[j + 1])
    end
  end
  if mark > before then redis.call('HSET', transfers, field, int(mark)) end
  answer[#answer + 1] = mark
  i = i + 2 + 2 * count
end
if sum > 0 then
  available = available + sum
  redis.call('HSET', run, 'a', int(available), 'c', int(tonumber(meta[4]) + 1))
end
answer[2] = available
return answer
