-- ARGV: 3 the record's id. Returns the early settlements of that life, each with its time in front of it.
primary()
local r = load()
if not r or r.id ~= ARGV[3] then return {} end
local found = {}
local all = redis.call('HGETALL', steps)
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 1) == 'K' then found[#found + 1] = all[i + 1] end
end
return found
