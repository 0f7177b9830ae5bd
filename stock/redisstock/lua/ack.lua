-- ack takes messages out of the outbox for good. A reservation of theirs that is not
-- settled is kept among those left behind, so that it can still be listed.
-- KEYS  1 run  2 buyers  3 outbox  4 left behind
-- ARGV  1 consumer group, then the ids of the messages
-- Answers how many messages were there.
local run, buyers, outbox, behind = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local done = 0
for i = 2, #ARGV do
  local entry = redis.call('XRANGE', outbox, ARGV[i], ARGV[i])[1]
  if entry then
    done = done + 1
    local fields, get = entry[2], {'HMGET', buyers}
    for j = 3, #fields, 2 do get[#get + 1] = fields[j] end
    local found = redis.call(unpack(get))
    local lost = 0
    for j = 1, #found do
      local buyer, token = fields[2 * j + 1], fields[2 * j + 2]
      local ticket = string.sub(token, 1, 20)
      -- Nearly always the order is written, and the record says so.
      if found[j] and stateOf(found[j], ticket) == '0' then
        local list = parse(redis.call('HGET', buyers, buyer))
        for _, p in ipairs(list) do
          if p.ticket == ticket then
            p.state, lost = '6', lost + 1
            local words = {}
            for word in string.gmatch(fields[1], '%S+') do words[#words + 1] = word end
            local own = words[1] .. ' ' .. words[2]
            if words[j + 2] then own = own .. ' ' .. words[j + 2] end
            redis.call('HSET', behind, ticket, own .. '\n' .. token .. ' ' .. buyer)
            redis.call('HSET', buyers, buyer, format(list))
          end
        end
      end
    end
    if lost > 0 then redis.call('HINCRBY', run, 'b', -lost) end
    redis.call('XDEL', outbox, ARGV[i])
  end
  redis.call('XACK', outbox, ARGV[1], ARGV[i])
end
return done
