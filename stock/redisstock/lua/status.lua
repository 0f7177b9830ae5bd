-- status tells where the units of one sub-stock are, at one moment.
-- KEYS  1 run  2 transfers
-- Answers {} if it is not there, or
--         {epoch, number of sub-stocks, 1 if it sells, available, queued, awaiting payment, paid,
--          returns, counter of moves, expiry in Unix ms, kind of the outbox, transfers (field, value, …)}
--         Fields: "o3" the last number given to sub-stock 3, "p3:7" units of number 7 on their
--         way there, "i3" the last number taken from sub-stock 3.
local meta = redis.call('HMGET', KEYS[1], 'e', 'k', 'o', 'a', 'q', 'w', 'd', 'r', 'c', 'x', 'z')
local transfers = redis.call('HGETALL', KEYS[2])
if not meta[1] or #transfers == 0 then return {} end
meta[12] = transfers
return meta
