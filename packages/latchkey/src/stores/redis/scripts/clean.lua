-- The record-cleaner's edges on one record. 3 which.
local r = load()
if not r then return no() end
if ARGV[3] == 'abandon' then
  if r.st ~= 'pending' or NOW < tonumber(r.ex) then return no() end
  local waited = r.ex - r.ca
  finish(r, 'failed', nil, waited, waited, 'timeout')
elseif ARGV[3] == 'purge' then
  if (r.st ~= 'completed' and r.st ~= 'failed') or NOW < tonumber(r.ex) then return no() end
  local n = life(r)
  n.st, n.fi, n.fg = 'expired', r.fi, r.fg
  redis.call('HDEL', steps, 'A')
  save(r, n)
else
  if r.st ~= 'expired' or NOW < tonumber(r.fg) then return no() end
  forget(r)
end
return '1'
