-- ARGV: 3 to 5 the owner, 6 a token of this one call, 7 the state, 8 the answer, 9 and 10 its retention, 11 the
-- error's code.
local r = load()
if r and r.id == ARGV[3] and r.x == ARGV[6] then
  primary()
  return r.ex or ''
end
if not holds(r, ARGV[3], 'in_progress', ARGV[4], ARGV[5]) then return no() end
return finish(r, ARGV[7], ARGV[8], ARGV[9], ARGV[10], text(ARGV[11]), ARGV[6]).ex
