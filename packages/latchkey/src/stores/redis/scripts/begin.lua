-- Begins a life. ARGV: 3 its state, 4 to 7 the guard on what it replaces (or nothing), 8 lease or expiry, 9
-- abandonment, 10 the input with one character in front of it (or nothing), from 11 on the record's fields in
-- pairs, among them a token of this one call: if the client itself sends the call again, it gets the same answer.
local new = { ca = num(NOW) }
for i = 11, #ARGV, 2 do new[ARGV[i]] = ARGV[i + 1] end
local old = load()
if old and old.id == new.id and old.x == new.x then
  primary()
  return view(old)
end
local guarded = ARGV[4] ~= ''
-- A lost transaction must not run again, whatever has happened to the record that it was to replace.
if not old and guarded and ARGV[3] ~= 'unknown' then return no() end
if old then
  if not guarded or not holds(old, ARGV[4], ARGV[5], ARGV[6], ARGV[7]) then return no() end
  local st = old.st
  if st == 'retryable' then
    local same = old.id == new.id and old.fv == new.fv and old.fd == new.fd
    if not same or ARGV[3] ~= 'unknown' then return no() end
    new.ca, new.rp, new.tr, new.ad, new.ks, new.tp = old.ca, old.rp, old.tr, old.ad, old.ks, old.tp
    new.st = 'unknown'
    save(old, new)
    return view(new)
  end
  local over = st == 'expired' or ((st == 'completed' or st == 'failed') and NOW >= tonumber(old.ex))
  if not over then return no() end
  forget(old)
end
if ARGV[3] == 'in_progress' then
  lease(new, ARGV[8], ARGV[9], new.lend, new.am)
else
  new.st = ARGV[3]
  if ARGV[3] == 'pending' then new.ex = later(ARGV[8]) end
end
save(nil, new)
local input = text(ARGV[10])
if input then redis.call('HSET', steps, 'I', input) end
return view(new)
