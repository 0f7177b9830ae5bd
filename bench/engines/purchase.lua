-- What a buyer's browser sends behind a shop's gateway, in size and in number
-- of headers. The token is not a real one: the servers here do not read it.
wrk.method = "POST"
wrk.body = '{"quantity":1}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept-Language"] = "en"
wrk.headers["X-Device-Id"] = "d-0123456789abcdef"
wrk.headers["Authorization"] = "Bearer " .. string.rep("0123456789", 18)
