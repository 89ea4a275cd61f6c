-- ARGV: 3 to 6 the guard, 7 and 8 the fingerprint, 9 the token, 10 to 13 the terms, 14 a token of this one call.
local r = load()
if not r or r.id ~= ARGV[3] then return no() end
if r.x == ARGV[14] then
  primary()
  return view(r)
end
if not holds(r, ARGV[3], ARGV[4], ARGV[5], ARGV[6]) then return no() end
if r.fv ~= ARGV[7] or r.fd ~= ARGV[8] then return no() end
local free = r.st == 'retryable' or (r.st == 'in_progress' and NOW >= tonumber(r.le))
if not free then return no() end
local n = life(r)
n.at, n.tk, n.x = num(r.at + 1), ARGV[9], ARGV[14]
save(r, lease(n, ARGV[10], ARGV[11], ARGV[12], ARGV[13]))
return view(n)
