-- ARGV: 3 to 5 the owner, 6 the step, 7 the generation, 8 the input, 9 the new step's fields as JSON, 10 a token of
-- this one call: if the client itself sends the call again, it counts once.
local function call(name)
  local v = redis.call('HMGET', steps, 'm' .. name, 'i' .. name, 'r' .. name)
  return { num(NOW), v[1], v[2], v[3], name }
end

local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r then return no() end
local name = ARGV[6]
local old = meta(name)
if not old then
  local new = cjson.decode(ARGV[9])
  new.st, new.n, new.sa, new.x = 'started', 1, num(NOW), ARGV[10]
  redis.call('HSET', steps, 'i' .. name, ARGV[8])
  saveCall(name, nil, new)
elseif old.x == ARGV[10] then
  primary()
  return call(name)
elseif tostring(old.g) == ARGV[7] and (old.st == 'started' or old.st == 'not_executed') then
  local new = copy(old)
  new.n, new.x = old.n + 1, ARGV[10]
  if old.st == 'not_executed' then new.st, new.sa = 'started', num(NOW) end
  saveCall(name, old, new)
else
  primary()
end
return call(name)
