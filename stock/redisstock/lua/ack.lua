-- ack takes messages out of the outbox for good. A reservation of theirs that is not
-- settled is kept among those left behind, so that it can still be listed.
-- KEYS  1 run  2 buyers  3 left behind  4 outbox, a stream; or 4 messages of a list  5 those in hand
-- ARGV  1 consumer group of a stream, then the ids of the messages
-- Answers how many messages were there.
local run, buyers, behind, outbox, taken = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- leave keeps a reservation that is not settled, and tells whether it did.
local function leave(head, i, buyer, token)
  local list = parse(redis.call('HGET', buyers, buyer))
  for _, p in ipairs(list) do
    if p.ticket == string.sub(token, 1, 20) then
      p.state = '6'
      local words = {}
      for word in string.gmatch(head, '%S+') do words[#words + 1] = word end
      local own = words[1] .. ' ' .. words[2]
      if words[i + 2] then own = own .. ' ' .. words[i + 2] end
      redis.call('HSET', behind, p.ticket, own .. '\n' .. buyer .. '\n' .. token)
      redis.call('HSET', buyers, buyer, format(list))
      return true
    end
  end
end

local done = 0
for i = 2, #ARGV do
  local text
  if taken then
    text = redis.call('HGET', outbox, ARGV[i])
  else
    local entry = redis.call('XRANGE', outbox, ARGV[i], ARGV[i])[1]
    text = entry and entry[2][2]
  end
  if text then
    done = done + 1
    local head, names, tokens = reservations(text)
    local found = redis.call('HMGET', buyers, unpack(names))
    local lost = 0
    for j, token in ipairs(tokens) do
      -- Nearly always the order is written, and the record says so.
      if found[j] and stateOf(found[j], string.sub(token, 1, 20)) == '0' and leave(head, j, names[j], token) then
        lost = lost + 1
      end
    end
    if lost > 0 then redis.call('HINCRBY', run, 'b', -lost) end
    redis.call(taken and 'HDEL' or 'XDEL', outbox, ARGV[i])
  end
  if taken then
    redis.call('HDEL', taken, ARGV[i])
  else
    redis.call('XACK', outbox, ARGV[1], ARGV[i])
  end
end
return done
