-- give puts units of one sub-stock on their way to another: at least as many as are wanted
-- if there are, and half of what is here, so that the last ones do not wander for each buyer.
-- KEYS  1 run  2 transfers
-- ARGV  1 epoch  2 taker  3 units wanted  4 the taker's mark: numbers up to it have arrived
-- Answers {code}: 0 not loaded, or another epoch
--         {1, available, number, units, …}: all that is on its way to the taker, in order
local run, transfers = KEYS[1], KEYS[2]
local meta = redis.call('HMGET', run, 'e', 'o', 'a', 'c')
if meta[1] ~= ARGV[1] or meta[2] ~= '1' then return {0} end
local all = redis.call('HGETALL', transfers)
if #all == 0 then return {0} end
local taker, mark, available = ARGV[2], tonumber(ARGV[4]), tonumber(meta[3])
local last, prefix = mark, 'p' .. taker .. ':'
local way, arrived = {}, {}
for i = 1, #all, 2 do
  local field = all[i]
  if field == 'o' .. taker then
    -- Never a number that the taker has passed, even if this side was set back.
    last = math.max(last, tonumber(all[i + 1]))
  elseif string.sub(field, 1, #prefix) == prefix then
    local number = tonumber(string.sub(field, #prefix + 1))
    if number <= mark then
      arrived[#arrived + 1] = field
    else
      way[#way + 1] = {number, tonumber(all[i + 1])}
    end
  end
end
if #arrived > 0 then redis.call('HDEL', transfers, unpack(arrived)) end
local units = math.min(available, math.max(tonumber(ARGV[3]), math.ceil(available / 2)))
if units > 0 then
  available = available - units
  last = last + 1
  way[#way + 1] = {last, units}
  redis.call('HSET', transfers, 'o' .. taker, int(last), prefix .. int(last), int(units))
  redis.call('HSET', run, 'a', int(available), 'c', int(tonumber(meta[4]) + 1))
end
table.sort(way, function(a, b) return a[1] < b[1] end)
local answer = {1, available}
for _, w in ipairs(way) do
  answer[#answer + 1] = w[1]
  answer[#answer + 1] = w[2]
end
return answer
