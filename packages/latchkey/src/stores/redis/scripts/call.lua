-- A call, with its record's fields. ARGV: 3 the step.
local function call(name)
  local v = redis.call('HMGET', steps, 'm' .. name, 'i' .. name, 'r' .. name)
  return { num(NOW), v[1], v[2], v[3], name }
end

primary()
local r = load()
if not r then return no() end
local c = call(ARGV[3])
if not c[2] then return no() end
return { view(r), c }
