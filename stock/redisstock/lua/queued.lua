-- queued lists reservations of one sub-stock that are not settled, a part of them at a time.
-- KEYS  1 buyers  2 left behind  3 outbox, a stream, or the messages of a list
-- ARGV  1 where to begin: of a stream the id of a message, "-" for the first; of messages a
--       cursor, 0 for the first  2 how many messages  3 1 to list those left behind, too
--       4 kind of the outbox: 0 stream, 1 list
-- Answers {where to go on or "", text, …}: each text is a message, with an empty token for
--         each reservation that is settled. Those of a list are in no order, and may come twice.
local buyers, behind, outbox = KEYS[1], KEYS[2], KEYS[3]
local answer, texts = {''}, {}
if ARGV[4] == '1' then
  local scan = redis.call('HSCAN', outbox, ARGV[1], 'COUNT', ARGV[2])
  if scan[1] ~= '0' then answer[1] = scan[1] end
  for i = 2, #scan[2], 2 do
    if scan[2][i] ~= '' then texts[#texts + 1] = scan[2][i] end
  end
else
  local entries = redis.call('XRANGE', outbox, ARGV[1], '+', 'COUNT', tonumber(ARGV[2]) + 1)
  for i, entry in ipairs(entries) do
    if i > tonumber(ARGV[2]) then
      answer[1] = entry[1]
    else
      texts[i] = entry[2][2]
    end
  end
end
for _, text in ipairs(texts) do
  local head, names, tokens = reservations(text)
  local found = redis.call('HMGET', buyers, unpack(names))
  local lines, some = {head}, false
  for j, token in ipairs(tokens) do
    local waits = found[j] and stateOf(found[j], string.sub(token, 1, 20)) == '0'
    lines[2 * j], lines[2 * j + 1] = names[j], waits and token or ''
    some = some or waits
  end
  if some then answer[#answer + 1] = table.concat(lines, '\n') end
end
if ARGV[3] == '1' then
  for i, v in ipairs(redis.call('HGETALL', behind)) do
    if i % 2 == 0 and v ~= '' then answer[#answer + 1] = v end
  end
end
return answer
