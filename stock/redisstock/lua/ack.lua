-- ack takes messages out of the outbox for good. A reservation of theirs that is not
-- settled is kept among those left behind, so that it can still be listed.
-- KEYS  1 run  2 buyers  3 left behind  4 outbox, a stream; or 4 messages of a list  5 those in hand
-- ARGV  1 consumer group of a stream, then the ids of the messages
-- Answers how many messages were there.
local run, buyers, behind, outbox, taken = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- spots takes the order in a head apart: a word for each reservation, as if it were alone (Go's appendPlaces). A stock
-- that is not split has none.
local function spots(head)
  local words, seen = {}, 0
  local verdicts = string.match(head, ' =(%S+)$')
  for batch, places in string.gmatch(head, ' (%w+):(%S+)') do
    local place, unit = 0, 1
    for _, sign in ipairs({string.byte(places, 1, -1)}) do
      local bits = sign - 48
      place, unit = place + bits % 32 * unit, unit * 32
      if bits < 32 then
        unit, seen = 1, seen + 1
        if not verdicts or string.sub(verdicts, seen, seen) == '9' then
          local word, rest = batch .. ':', place
          while rest >= 32 do
            word, rest = word .. string.char(80 + rest % 32), math.floor(rest / 32)
          end
          words[#words + 1] = word .. string.char(48 + rest)
        end
      end
    end
  end
  return words
end

-- leave keeps a reservation that is not settled, and tells whether it did.
local function leave(head, buyer, token)
  local list = parse(redis.call('HGET', buyers, buyer))
  for _, p in ipairs(list) do
    if p.ticket == string.sub(token, 1, 20) then
      p.state = '6'
      redis.call('HSET', behind, p.ticket, head .. '\n' .. buyer .. '\n' .. token)
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
    local lost, own, places = 0, string.match(head, '^%S+ %S+'), nil
    for j, token in ipairs(tokens) do
      -- Nearly always the order is written, and the record says so.
      if found[j] and stateOf(found[j], string.sub(token, 1, 20)) == '0' then
        places = places or spots(head)
        if leave(places[j] and own .. ' ' .. places[j] or own, names[j], token) then lost = lost + 1 end
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
