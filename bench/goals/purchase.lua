-- A purchase by one of many buyers after the other, each on a device of his own. Arguments: a file with the value of the
-- header that names each, and the header's name.
local requests, next = {}, 0

function init(args)
  for value in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("POST", wrk.path,
      { ["Content-Type"] = "application/json", [args[2]] = value, ["X-Device-Id"] = "device-" .. #requests }, '{"quantity":1}')
  end
end

function request()
  next = next % #requests + 1
  return requests[next]
end
