-- ARGV: 3 to 5 the owner, 6 the step, 7 the generation, 8 its state then, 9 its result, or nothing.
local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r then return no() end
local name = ARGV[6]
local old = meta(name)
if not old or tostring(old.g) ~= ARGV[7] then return no() end
local final = ARGV[8] ~= 'not_executed'
if old.st ~= 'started' then
  if old.st ~= ARGV[8] then return no() end
  if final and redis.call('HGET', steps, 'r' .. name) ~= ARGV[9] then return no() end
  primary()
  return '1'
end
local new = copy(old)
new.st = ARGV[8]
if final then
  new.fi = num(NOW)
  redis.call('HSET', steps, 'r' .. name, ARGV[9])
  local n = copy(r)
  n.rp = name
  save(r, n)
end
saveCall(name, old, new)
return '1'
