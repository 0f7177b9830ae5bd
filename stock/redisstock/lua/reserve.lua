-- reserve decides attempts on one sub-stock, in their order, all in one step.
-- KEYS  1 run  2 buyers  3 outbox, a stream; or 3 outbox, a list  4 its messages
-- ARGV  1 epoch  2 number of sub-stocks  3 what is added to the clock, µs
--       4 channel that wakes consumers  5 name of the sub-stock for it
--       6 1 to leave the rest undecided after one that is short, else 0
--       7 what the attempts have in common: 2 no buyer is among them twice, and each is for one unit, without
--         a key and with a ticket of this run; 1 a buyer is among them twice; 0 neither
--       8 what orders attempts among those at other sub-stocks: "-", or "process batch:places batch:places …"
--         with the batches they came in, and their places there (Go's appendPlaces)
--       then for each attempt: buyer, token (see record.lua) without a slot. That of a
--       ticket which is not of this run begins with "?" and is longer than 20.
-- Answers {code}: 0 not loaded  1 another epoch is in place  2 another number of sub-stocks
--         {3, verdicts, available, reservations queued, …}: verdicts has one sign per
--         attempt (Go's stock.Verdict, counted from "0"), "." if undecided; then, in order, for each that
--         is known: ticket, reservations in front; over the limit: ticket or "".
-- The outbox's message is lines: µs, ARGV 8 and, unless all were taken, "=" with the verdicts; and then for
-- each that was taken two: its buyer, and the token without key.
--
-- Lists are made from ARGV, in place, wherever they can be as long as it: a table that grows, or
-- a string that is made, for each attempt is what this script spends its time on.
local HEAD = 8
local WAKE_EVERY = 20000 -- µs. Consumers look often for longer than this after a wake.
local KNOWN, MISMATCH, PAUSED, NOT_STARTED, ENDED, OVER, SHORT, TAKEN, REPLAYED = '2', '3', '4', '5', '6', '7', '8', '9', ':'

local run, buyers, outbox, messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local meta = redis.call('HMGET', run, 'e', 'k', 'o', 's', 'f', 'l', 'p', 'a', 'q', 'n', 'u', 'b', 'y')
if not meta[1] then return {0} end
if meta[1] ~= ARGV[1] then return {1} end
if meta[3] ~= '1' then return {1} end -- Being loaded: this epoch is not in place yet.
if meta[2] ~= ARGV[2] then return {2} end

local count = (#ARGV - HEAD) / 2
local get = {'HMGET', buyers, '', unpack(ARGV, HEAD + 1, HEAD + count)}
for i = 1, count do get[i + 3] = ARGV[HEAD - 1 + 2 * i] end
local found = redis.call(unpack(get))
-- The empty name is there from the load on. Without it the buyers are lost, and everybody
-- could buy again.
if not found[1] then return {0} end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2]) + tonumber(ARGV[3])
local closed
if meta[7] == '1' then closed = PAUSED
elseif now < tonumber(meta[4]) then closed = NOT_STARTED
elseif now >= tonumber(meta[5]) then closed = ENDED end
local limit, available = tonumber(meta[6]), tonumber(meta[8])
local reservations, left = tonumber(meta[10]), tonumber(meta[11])
local stop, stopped = ARGV[6] == '1', false
local taken, units = 0, 0
local queued = ' 0' .. int(left + reservations + 1)
local verdicts, extra, changed, set, lines

local function ahead(p)
  if p.state ~= '0' and p.state ~= '6' then return 0 end
  return math.max(0, math.min(tonumber(p.rest) - left - 1, reservations - 1))
end

-- alike decides attempts that all get the same answer, without looking at each: that of a rush, where
-- there is enough for all of them, or that of the time before it and after it. It tells whether it did.
local function alike()
  if ARGV[7] ~= '2' or limit < 1 then return false end
  for i = 2, count + 1 do
    if found[i] then return false end
  end
  extra = {}
  if closed then
    verdicts = string.rep(closed, count)
  elseif available >= count then
    set = {'HSET', buyers, unpack(ARGV, HEAD + 1)}
    for i = 4, 2 * count + 2, 2 do set[i] = set[i] .. queued end
    verdicts, taken, units = string.rep(TAKEN, count), count, count
    lines = table.concat(ARGV, '\n', HEAD + 1)
  elseif available < 1 then
    verdicts = string.rep(SHORT, count)
  else
    return false
  end
  available = available - units
  return true
end

-- held looks through what a buyer has: a purchase by ticket or key, live units, the
-- latest live ticket, the lowest free slot.
local function held(list, ticket, key)
  local byTicket, byKey, latest
  local sum, slots = 0, {}
  for _, p in ipairs(list) do
    if p.ticket == ticket then byTicket = p end
    if key ~= '' and p.key == key and not byKey then byKey = p end
    if LIVE[p.state] then
      sum = sum + p.quantity
      slots[p.slot] = true
      latest = latest or p.ticket
    end
  end
  local slot = 1
  while slots[slot] do slot = slot + 1 end
  return byTicket, byKey, sum, latest or '', slot
end

-- decide is for whatever is not the usual case below.
local function decide(token, text)
  local quantity, key = details(token)
  local latest, sum, slot = '', 0, 1
  if text then
    local byTicket, byKey
    byTicket, byKey, sum, latest, slot = held(parse(text), string.sub(token, 1, 20), key)
    if byTicket and byTicket.key ~= '' and byTicket.key ~= key then return REPLAYED end
    local p = byTicket or byKey
    if p and p.quantity == quantity then
      extra[#extra + 1] = p.ticket
      extra[#extra + 1] = ahead(p)
      return KNOWN
    end
    if p then return MISMATCH end
  end
  if closed then return closed end
  if sum + quantity > limit then
    extra[#extra + 1] = latest
    return OVER
  end
  if quantity > available then
    stopped = stop
    return SHORT
  end
  -- Nobody makes such a ticket by mistake; the outbox could not carry it.
  if string.sub(token, 1, 1) == '?' then return MISMATCH end
  local plain = string.sub(token, 1, 20)
  if quantity > 1 then plain = plain .. quantity .. ':' end
  if slot > 1 then
    token, plain = token .. '/' .. slot, plain .. '/' .. slot
  end
  return TAKEN, token, quantity, plain
end

-- put puts a message into the outbox, unless that is lost. A stream has ids of its own.
local function put(at, message)
  if not messages then return redis.call('XADD', outbox, 'NOMKSTREAM', '*', '', message) end
  local id = at .. '-' .. int(left + reservations + 1)
  if redis.call('HLEN', messages) == 0 or redis.call('RPUSHX', outbox, id) == 0 then return false end
  return redis.call('HSET', messages, id, message)
end

-- each decides one attempt after the other.
local function each()
  local twice = ARGV[7] == '1'
  verdicts, extra, changed = {unpack(ARGV, HEAD + 1, HEAD + count)}, {}, {}
  set, lines = {'HSET', buyers, unpack(ARGV, HEAD + 1)}, {unpack(ARGV, HEAD + 1)}
  for i = 1, count do
    local buyer, token = get[i + 3], ARGV[HEAD + 2 * i]
    local text = found[i + 1]
    if twice then text = changed[buyer] or text end
    local verdict, quantity, plain = TAKEN, 1, token
    if stopped then
      verdict = '.'
    elseif text or closed or #token > 20 or available < 1 then
      verdict, token, quantity, plain = decide(token, text)
    end
    if verdict == TAKEN then
      available = available - quantity
      units = units + quantity
      taken = taken + 1
      local record = token .. queued
      if text then record = record .. '\n' .. text end
      if twice then changed[buyer] = record end
      -- A buyer who is written twice in one go has what was written last.
      set[2 * taken + 1], set[2 * taken + 2] = buyer, record
      lines[2 * taken - 1], lines[2 * taken] = buyer, plain
    end
    verdicts[i] = verdict
  end
  lines = table.concat(lines, '\n', 1, 2 * taken)
  verdicts = table.concat(verdicts)
end

if not alike() then each() end
if taken > 0 then
  -- The outbox first: if it is lost, nothing has been written yet.
  local at = int(now)
  local head = at .. ' ' .. ARGV[8]
  if taken < count then head = head .. ' =' .. verdicts end
  if not put(at, head .. '\n' .. lines) then return {0} end
  redis.call(unpack(set, 1, 2 * taken + 2))
  reservations = reservations + taken
  redis.call('HSET', run, 'a', int(available), 'q', int(meta[9] + units), 'n', int(reservations), 'b', int(meta[12] + taken))
  local silent = now - meta[13]
  if silent >= WAKE_EVERY or silent < 0 then
    redis.call('HSET', run, 'y', int(now))
    redis.call('PUBLISH', ARGV[4], ARGV[5])
  end
end
return {3, verdicts, available, reservations, unpack(extra)}
