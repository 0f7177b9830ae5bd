-- forget drops what a taker has got from what is on its way there.
-- KEYS  1 run  2 transfers
-- ARGV  1 epoch, then for each taker: taker, its mark
-- Answers how many were dropped.
local run, transfers = KEYS[1], KEYS[2]
if redis.call('HGET', run, 'e') ~= ARGV[1] then return 0 end
local all, arrived = redis.call('HKEYS', transfers), {}
for i = 2, #ARGV, 2 do
  local prefix, mark = 'p' .. ARGV[i] .. ':', tonumber(ARGV[i + 1])
  for _, field in ipairs(all) do
    if string.sub(field, 1, #prefix) == prefix and tonumber(string.sub(field, #prefix + 1)) <= mark then
      arrived[#arrived + 1] = field
    end
  end
end
if #arrived == 0 then return 0 end
return redis.call('HDEL', transfers, unpack(arrived))
