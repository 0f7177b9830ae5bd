-- queued lists reservations of one sub-stock that are not settled, a part of them at a time.
-- KEYS  1 buyers  2 outbox  3 left behind
-- ARGV  1 id of the message to begin with, "-" for the first  2 how many messages
--       3 1 to list those left behind, too
-- Answers {id of the message to go on with or "", text, …}: each text is a message, its head and
--         for each reservation a line "token buyer", or an empty one if it is settled.
local buyers, outbox, behind = KEYS[1], KEYS[2], KEYS[3]
local entries = redis.call('XRANGE', outbox, ARGV[1], '+', 'COUNT', tonumber(ARGV[2]) + 1)
local answer = {''}
for i, entry in ipairs(entries) do
  if i > tonumber(ARGV[2]) then
    answer[1] = entry[1]
    break
  end
  local fields, get = entry[2], {'HMGET', buyers}
  for j = 3, #fields, 2 do get[#get + 1] = fields[j] end
  local found = redis.call(unpack(get))
  local lines, some = {fields[1]}, false
  for j = 1, #found do
    local token = fields[2 * j + 2]
    lines[j + 1] = ''
    if found[j] and stateOf(found[j], string.sub(token, 1, 20)) == '0' then
      lines[j + 1], some = token .. ' ' .. fields[2 * j + 1], true
    end
  end
  if some then answer[#answer + 1] = table.concat(lines, '\n') end
end
if ARGV[3] == '1' then
  for i, v in ipairs(redis.call('HGETALL', behind)) do
    if i % 2 == 0 and v ~= '' then answer[#answer + 1] = v end
  end
end
return answer
