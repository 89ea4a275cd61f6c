-- ARGV: 3 to 6 the guard, 7 how long.
local r = load()
if not holds(r, ARGV[3], ARGV[4], ARGV[5], ARGV[6]) or r.st ~= 'unknown' then return no() end
local n = copy(r)
n.ra, n.cl = later(ARGV[7]), nil
save(r, n)
return '1'
