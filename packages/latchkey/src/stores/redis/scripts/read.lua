-- The record, and the entries of the index that it should have: one that was lost comes back.
primary()
local r = load()
if r then
  enter(entries(r))
  redis.call('HSETNX', look, 'i' .. r.id, d)
end
return view(r)
