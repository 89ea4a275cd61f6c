-- ARGV: 3 to 5 the owner, 6 the new token, 7 the lease.
local function journal(r)
  return { num(NOW), r.rp or false, redis.call('HGETALL', steps) }
end

local r = owned(ARGV[3], ARGV[4], ARGV[5]) or owned(ARGV[3], ARGV[4], ARGV[6])
if not r then return no() end
local n = copy(r)
n.tk, n.le = ARGV[6], later(ARGV[7])
save(r, n)
return journal(n)
