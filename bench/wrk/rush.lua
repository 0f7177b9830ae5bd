-- A rush for wrk: each click is a purchase of a buyer whom nobody has seen before, with an idempotency key of its own.
-- README.md one folder up says how to run it. What it is told comes from the environment:
--   ACTIVITY  id of the activity, 1
--   CLICKS    clicks of each buyer in a row, 1
--   BUYER     the header that says who the buyer is, X-User-Id (--auth open, or header:NAME)
--   TOKENS    a file with a bearer token on each line, instead of BUYER (--auth jwt:…)

local activity = os.getenv("ACTIVITY") or "1"
local clicks = tonumber(os.getenv("CLICKS") or "1")
local header = os.getenv("BUYER") or "X-User-Id"
local path = "/v1/activities/" .. activity .. "/purchases"

-- Random bytes come from the system, some at a time: the seeds of several threads would be alike.
local random = assert(io.open("/dev/urandom", "rb"))
local bytes, at = "", 1
local function take(n)
  if at + n > #bytes + 1 then
    bytes, at = random:read(4096), 1
  end
  at = at + n
  return bytes:byte(at - n, at - 1)
end

-- A UUID of version 4. Ids from 1 to N would all be in one corner of what hashes by them.
local function uuid()
  local b = { take(16) }
  b[7] = 64 + b[7] % 16
  b[9] = 128 + b[9] % 64
  return string.format("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", unpack(b))
end

local tokens = {}
if os.getenv("TOKENS") then
  header = "Authorization"
  for line in io.lines(os.getenv("TOKENS")) do
    if line ~= "" then tokens[#tokens + 1] = "Bearer " .. line end
  end
  assert(#tokens > 0, "the file of tokens is empty")
end

local buyer, left = nil, 0
local function next_buyer()
  if left == 0 then
    left = clicks
    if #tokens > 0 then
      local a, b, c = take(3)
      buyer = tokens[(a * 65536 + b * 256 + c) % #tokens + 1]
    else
      buyer = uuid()
    end
  end
  left = left - 1
  return buyer
end

function request()
  return wrk.format("POST", path, {
    [header] = next_buyer(), ["Idempotency-Key"] = uuid(), ["Content-Type"] = "application/json",
  }, '{"quantity":1}')
end

-- By outcome; each thread has its own, and done reads them all.
outcomes = {}
function response(status, _, body)
  local outcome = status == 202 and "accepted" or body:match('"reason":"([%w_]+)"') or "http_" .. status
  outcomes[outcome] = (outcomes[outcome] or 0) + 1
end

-- Outcomes that are no part of a sale: the server is unwell, or this test is told something wrong.
local mistakes = { busy = true, internal = true, invalid_request = true, unauthenticated = true, not_found = true }

local threads = {}
function setup(thread)
  threads[#threads + 1] = thread
end

function done(summary, latency)
  local seconds = summary.duration / 1e6
  local all, total = {}, 0
  for _, thread in ipairs(threads) do
    for outcome, n in pairs(thread:get("outcomes")) do
      all[outcome] = (all[outcome] or 0) + n
      total = total + n
    end
  end
  local names = {}
  for outcome in pairs(all) do names[#names + 1] = outcome end
  table.sort(names, function(a, b) return all[a] > all[b] end)

  print(string.format("\n  answers     %d in %.1f s, %.0f a second", total, seconds, total / seconds))
  print(string.format("  latency     p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, most %.2f ms",
    latency:percentile(50) / 1000, latency:percentile(90) / 1000, latency:percentile(99) / 1000,
    latency:percentile(99.9) / 1000, latency.max / 1000))
  for _, outcome in ipairs(names) do
    print(string.format("  %-24s %10d  %5.1f %%", outcome, all[outcome], 100 * all[outcome] / total))
  end
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.timeout
  local unwell = 0
  for outcome, n in pairs(all) do
    if mistakes[outcome] or outcome:match("^http_") then unwell = unwell + n end
  end
  print(string.format("  no answer   %d (connect %d, read %d, write %d, timeout %d)", failed, e.connect, e.read, e.write, e.timeout))
  print(string.format("  error rate  %.3f %% (no answer, server unwell, or the test is wrong; other refusals are answers)", 100 * (failed + unwell) / math.max(total + failed, 1)))
end
