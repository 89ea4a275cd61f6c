-- ARGV: 3 to 6 the guard, 7 the audit row's id, 8 the audit row as JSON.
for _, row in ipairs(redis.call('LRANGE', audit, 0, -1)) do
  local known = cjson.decode(row)
  if known.id == ARGV[7] then
    primary()
    if known.recordId == ARGV[3] then return '1' end
    return no()
  end
end
local r = load()
if not holds(r, ARGV[3], ARGV[4], ARGV[5], ARGV[6]) then return no() end
local at = r.fg
if r.st == 'retryable' then at = r.rs elseif r.st == 'unknown' then at = r.ra end
if at and NOW >= tonumber(at) then return no() end
local n = copy(r)
if r.st == 'completed' or r.st == 'failed' then n.ex, n.fg = num(NOW), num(NOW)
elseif r.st == 'expired' then n.fg = num(NOW)
elseif r.st == 'retryable' then n.rs = num(NOW)
elseif r.st == 'unknown' then n.ra, n.cl = num(NOW), nil
else return no() end
local row = cjson.decode(ARGV[8])
row.at = num(NOW)
redis.call('RPUSH', audit, cjson.encode(row))
save(r, n)
return '1'
