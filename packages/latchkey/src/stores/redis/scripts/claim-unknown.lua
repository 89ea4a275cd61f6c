-- ARGV: 3 the operation, 4 the claim's token, 5 for how long.
local r = load()
if not r or r.st ~= 'unknown' or r.op ~= ARGV[3] or not r.ra then return no() end
if r.cl == ARGV[4] then
  primary()
  return view(r)
end
if NOW < tonumber(r.ra) then return no() end
local n = copy(r)
n.ra, n.tr, n.cl = later(ARGV[5]), num((r.tr or 0) + 1), ARGV[4]
save(r, n)
return view(n)
