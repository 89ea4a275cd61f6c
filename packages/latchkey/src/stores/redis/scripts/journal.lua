-- ARGV: 3 the record's id.
local function journal(r)
  return { num(NOW), r.rp or false, redis.call('HGETALL', steps) }
end

primary()
local r = load()
if not r or r.id ~= ARGV[3] then return no() end
return journal(r)
