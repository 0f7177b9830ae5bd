-- Decides purchases of one unit each, in one step.
-- KEYS  1 run  2 buyers  3 stream of what was taken
-- ARGV  buyer, ticket, buyer, ticket, …
-- Answers {verdicts, units left, ticket, …}: a digit per purchase (Go's stock.Verdict) and
-- the ticket of each that was over the limit.
local left = tonumber(redis.call('HGET', KEYS[1], 'left'))
local get = { KEYS[2] }
for i = 1, #ARGV, 2 do get[#get + 1] = ARGV[i] end
local found = redis.call('HMGET', unpack(get))
local verdicts, put, held, taken = {}, { KEYS[2] }, {}, 0
local answer = { '', 0 }
for i = 1, #found do
  local buyer, ticket = ARGV[2 * i - 1], ARGV[2 * i]
  local has = found[i] or held[buyer]
  if has then
    verdicts[i] = '7'
    answer[#answer + 1] = has
  elseif taken >= left then
    verdicts[i] = '8'
  else
    verdicts[i] = '9'
    taken = taken + 1
    held[buyer] = ticket
    put[#put + 1] = buyer
    put[#put + 1] = ticket
  end
end
if taken > 0 then
  redis.call('HSET', unpack(put))
  redis.call('HINCRBY', KEYS[1], 'left', -taken)
  redis.call('XADD', KEYS[3], '*', 'taken', table.concat(put, ' ', 2))
end
answer[1], answer[2] = table.concat(verdicts), left - taken
return answer
