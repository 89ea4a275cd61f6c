-- ARGV: 3 to 6 the guard, 7 the audit row's id, 8 the settlement.
local r = load()
if not holds(r, ARGV[3], ARGV[4], ARGV[5], ARGV[6]) then return no() end
if r.st ~= 'in_progress' and r.st ~= 'retryable' then return no() end
if redis.call('HSETNX', steps, 'K' .. ARGV[7], pad(NOW) .. ARGV[8]) == 0 then primary() end
if not r.ks then
  local n = copy(r)
  n.ks = '1'
  save(r, n)
end
return '1'
