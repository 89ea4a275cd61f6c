-- ARGV: 3 to 5 the owner, 6 the lease.
local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r or NOW >= tonumber(r.le) then return no() end
local n = copy(r)
n.le = later(ARGV[6])
save(r, n)
return '1'
