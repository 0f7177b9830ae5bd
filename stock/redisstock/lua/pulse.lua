-- pulse tells whether a sub-stock is where it was when it was marked, and counts its own calls.
-- KEYS  1 run
-- ARGV  1 epoch
--       2 the mark that is to be replaced by this server's, "" for none
-- Answers {} if it is not there under this epoch, or
--         {mark, this server, beats}: the mark is the run id of the server that was asked
--         first, "" if this user may not ask for it. A server that starts has another one, and so
--         has a replica that takes over: what it has may be older than what buyers were told.
local meta = redis.call('HMGET', KEYS[1], 'e', 'v')
if meta[1] ~= ARGV[1] then return {} end
local info = redis.pcall('INFO', 'server')
local here = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local mark = meta[2] or ''
if here ~= '' and (mark == '' or mark == ARGV[2]) then
  mark = here
  redis.call('HSET', KEYS[1], 'v', mark)
end
return {mark, here, redis.call('HINCRBY', KEYS[1], 'h', 1)}
