-- leave hands back what a consumer of one outbox has not acknowledged, to whoever claims
-- next, and forgets the consumer. Another that has been silent for long and has nothing
-- is forgotten, too.
-- KEYS  1 outbox
-- ARGV  1 group  2 consumer  3 name under which handed back messages wait  4 how long a
--       silent consumer is kept, ms
-- Answers how many messages were handed back; -1 if there is no such outbox.
local outbox, group, me = KEYS[1], ARGV[1], ARGV[2]
if redis.call('EXISTS', outbox) == 0 then return -1 end
local back = 0
while true do
  local mine = redis.call('XPENDING', outbox, group, '-', '+', 500, me)
  if #mine == 0 then break end
  local claim = {'XCLAIM', outbox, group, ARGV[3], 0}
  for _, m in ipairs(mine) do claim[#claim + 1] = m[1] end
  -- So old that it is claimed at once.
  for _, word in ipairs({'IDLE', '86400000', 'JUSTID'}) do claim[#claim + 1] = word end
  local claimed = redis.call(unpack(claim))
  back = back + #claimed
  -- One whose message is gone cannot be claimed; Redis drops it, or it is acknowledged here.
  if #claimed < #mine then
    local drop = {'XACK', outbox, group}
    local there = {}
    for _, id in ipairs(claimed) do there[id] = true end
    for _, m in ipairs(mine) do
      if not there[m[1]] then drop[#drop + 1] = m[1] end
    end
    redis.call(unpack(drop))
  end
end
redis.call('XGROUP', 'DELCONSUMER', outbox, group, me)
for _, c in ipairs(redis.call('XINFO', 'CONSUMERS', outbox, group)) do
  local info = {}
  for i = 1, #c, 2 do info[c[i]] = c[i + 1] end
  if info.name ~= ARGV[3] and info.pending == 0 and info.idle > tonumber(ARGV[4]) then
    redis.call('XGROUP', 'DELCONSUMER', outbox, group, info.name)
  end
end
return back
