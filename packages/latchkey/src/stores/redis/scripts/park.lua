-- ARGV: 3 to 5 the owner, 6 a token of this one call, 7 the state, 8 the error's code, 9 how long until a worker
-- comes back.
local r = load()
if r and r.id == ARGV[3] and r.x == ARGV[6] then
  primary()
  return '1'
end
if not holds(r, ARGV[3], 'in_progress', ARGV[4], ARGV[5]) then return no() end
local n = life(r)
n.st, n.er, n.x = ARGV[7], text(ARGV[8]), ARGV[6]
if ARGV[7] == 'retryable' then n.rs = later(ARGV[9]) else n.ra = later(ARGV[9]) end
save(r, n)
return '1'
