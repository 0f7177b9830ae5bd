-- message reads what reserve.lua puts into an outbox. It stands in front of other scripts.

-- reservations takes a message of the outbox apart (see reserve.lua): its head, and the buyers and
-- tokens in it.
local function reservations(message)
  local head, rest = string.match(message, '^([^\n]*)\n(.*)$')
  local buyers, tokens = {}, {}
  for buyer, token in string.gmatch(rest, '([^\n]+)\n([^\n]*)\n?') do
    buyers[#buyers + 1], tokens[#tokens + 1] = buyer, token
  end
  return head, buyers, tokens
end

