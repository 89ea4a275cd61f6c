-- ARGV: 3 the operation, 4 the token, 5 to 8 the terms.
local r = load()
if not r or r.op ~= ARGV[3] then return no() end
if r.st == 'in_progress' and r.tk == ARGV[4] then
  primary()
  return view(r)
end
if r.st ~= 'pending' or NOW >= tonumber(r.ex) then return no() end
local n = life(r)
n.tk = ARGV[4]
save(r, lease(n, ARGV[5], ARGV[6], ARGV[7], ARGV[8]))
return view(n)
