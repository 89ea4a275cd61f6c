-- ARGV: 3 to 6 the guard, 7 the audit row's id, 8 the event, 9 what becomes of the record, 10 the audit row as JSON.
-- To `completed` or `failed`: 11 the answer, 12 and 13 its retention, 14 the error's code. To `retryable`: 11
-- how long until a worker may resume it, 12 what becomes of calls that are started, 13 and 14 a call and its
-- generation (or nothing), 15 the downstream key of the next generation, or the call's result.
for _, row in ipairs(redis.call('LRANGE', audit, 0, -1)) do
  local known = cjson.decode(row)
  if known.id == ARGV[7] then
    primary()
    if known.recordId == ARGV[3] then return '1' end
    return no()
  end
end
local r = load()
if not holds(r, ARGV[3], ARGV[4], ARGV[5], ARGV[6]) or r.st ~= 'unknown' then return no() end
local to = ARGV[9]
local row = cjson.decode(ARGV[10])
row.at = num(NOW)
local entry = cjson.encode(row)
if to ~= 'retryable' then
  redis.call('RPUSH', audit, entry)
  finish(r, to, ARGV[11], ARGV[12], ARGV[13], text(ARGV[14]))
  return '1'
end
local name, named = ARGV[13], nil
if name ~= '' then
  named = meta(name)
  if not named or named.st ~= 'started' or tostring(named.g) ~= ARGV[14] then return no() end
end
redis.call('RPUSH', audit, entry)
local n = life(r)
n.st, n.er, n.rs = 'retryable', r.er, later(ARGV[11])
if ARGV[8] == 'settle_call' then
  local new = copy(named)
  new.st, new.fi = 'finished', num(NOW)
  redis.call('HSET', steps, 'r' .. name, ARGV[15])
  saveCall(name, named, new)
  n.rp = name
else
  for _, s in ipairs(metas()) do
    local old = s[2]
    local new = copy(old)
    if named and s[1] == name then
      new.st, new.g, new.dk, new.n = 'not_executed', old.g + 1, ARGV[15], 0
      saveCall(name, old, new)
    elseif old.st == 'started' and ARGV[12] == 'never-happened' then
      new.st = 'not_executed'
      saveCall(s[1], old, new)
    end
  end
end
save(r, n)
return '1'
