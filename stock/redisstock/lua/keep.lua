-- keep says that a consumer of one outbox still works on what it has, so that nobody
-- claims it.
-- KEYS  1 outbox
-- ARGV  1 group  2 consumer  3 how old it may be before it is renewed, ms
-- Answers how many messages were renewed; -1 if there is no such outbox.
local outbox = KEYS[1]
if redis.call('EXISTS', outbox) == 0 then return -1 end
local mine = redis.call('XPENDING', outbox, ARGV[1], 'IDLE', ARGV[3], '-', '+', 1000, ARGV[2])
if #mine == 0 then return 0 end
local claim = {'XCLAIM', outbox, ARGV[1], ARGV[2], 0}
for _, m in ipairs(mine) do claim[#claim + 1] = m[1] end
claim[#claim + 1] = 'JUSTID'
redis.call(unpack(claim))
return #mine
