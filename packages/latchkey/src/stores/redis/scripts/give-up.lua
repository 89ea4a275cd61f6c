-- ARGV: 3 to 6 the guard, 7 the error's code, 8 how long until reconciliation, 9 a token of this one call.
local r = load()
if r and r.id == ARGV[3] and r.x == ARGV[9] then
  primary()
  return '1'
end
if not holds(r, ARGV[3], ARGV[4], ARGV[5], ARGV[6]) then return no() end
if r.st ~= 'in_progress' or NOW < tonumber(r.le) then return no() end
local n = life(r)
n.st, n.er, n.ra, n.x = 'unknown', text(ARGV[7]), later(ARGV[8]), ARGV[9]
save(r, n)
return '1'
