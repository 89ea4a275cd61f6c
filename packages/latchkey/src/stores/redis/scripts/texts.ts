/** Generated from the .lua files of this folder by `npm run docs:generate`. Do not edit. */
export const lua = {
  audit: `primary()
return redis.call('LRANGE', audit, 0, -1)`,
  begin: `local new = { ca = num(NOW) }
for i = 11, #ARGV, 2 do new[ARGV[i]] = ARGV[i + 1] end
local old = load()
if old and old.id == new.id and old.x == new.x then
primary()
return view(old)
end
local guarded = ARGV[4] ~= ''
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
return view(new)`,
  call: `local function call(name)
local v = redis.call('HMGET', steps, 'm' .. name, 'i' .. name, 'r' .. name)
return { num(NOW), v[1], v[2], v[3], name }
end
primary()
local r = load()
if not r then return no() end
local c = call(ARGV[3])
if not c[2] then return no() end
return { view(r), c }`,
  claimPending: `local r = load()
if not r or r.op ~= ARGV[3] then return no() end
if r.st == 'in_progress' and r.tk == ARGV[4] then
primary()
return view(r)
end
if r.st ~= 'pending' or NOW >= tonumber(r.ex) then return no() end
local n = life(r)
n.tk = ARGV[4]
save(r, lease(n, ARGV[5], ARGV[6], ARGV[7], ARGV[8]))
return view(n)`,
  claimUnknown: `local r = load()
if not r or r.st ~= 'unknown' or r.op ~= ARGV[3] or not r.ra then return no() end
if r.cl == ARGV[4] then
primary()
return view(r)
end
if NOW < tonumber(r.ra) then return no() end
local n = copy(r)
n.ra, n.tr, n.cl = later(ARGV[5]), num((r.tr or 0) + 1), ARGV[4]
save(r, n)
return view(n)`,
  clean: `local r = load()
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
return '1'`,
  early: `primary()
local r = load()
if not r or r.id ~= ARGV[3] then return {} end
local found = {}
local all = redis.call('HGETALL', steps)
for i = 1, #all, 2 do
if string.sub(all[i], 1, 1) == 'K' then found[#found + 1] = all[i + 1] end
end
return found`,
  endCall: `local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r then return no() end
local name = ARGV[6]
local old = meta(name)
if not old or tostring(old.g) ~= ARGV[7] then return no() end
local final = ARGV[8] ~= 'not_executed'
if old.st ~= 'started' then
if old.st ~= ARGV[8] then return no() end
if final and redis.call('HGET', steps, 'r' .. name) ~= ARGV[9] then return no() end
primary()
return '1'
end
local new = copy(old)
new.st = ARGV[8]
if final then
new.fi = num(NOW)
redis.call('HSET', steps, 'r' .. name, ARGV[9])
local n = copy(r)
n.rp = name
save(r, n)
end
saveCall(name, old, new)
return '1'`,
  find: `primary()
local names = {}
for i = 3, #ARGV do names[#names + 1] = ARGV[i] end
local found = redis.call('HMGET', look, unpack(names))
table.insert(found, 1, num(NOW))
return found`,
  finish: `local r = load()
if r and r.id == ARGV[3] and r.x == ARGV[6] then
primary()
return r.ex or ''
end
if not holds(r, ARGV[3], 'in_progress', ARGV[4], ARGV[5]) then return no() end
return finish(r, ARGV[7], ARGV[8], ARGV[9], ARGV[10], text(ARGV[11]), ARGV[6]).ex`,
  giveUp: `local r = load()
if r and r.id == ARGV[3] and r.x == ARGV[9] then
primary()
return '1'
end
if not holds(r, ARGV[3], ARGV[4], ARGV[5], ARGV[6]) then return no() end
if r.st ~= 'in_progress' or NOW < tonumber(r.le) then return no() end
local n = life(r)
n.st, n.er, n.ra, n.x = 'unknown', text(ARGV[7]), later(ARGV[8]), ARGV[9]
save(r, n)
return '1'`,
  hasten: `for _, row in ipairs(redis.call('LRANGE', audit, 0, -1)) do
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
return '1'`,
  inspect: `primary()
local info = ''
for _, section in ipairs({ 'server', 'memory', 'persistence' }) do
local ok = redis.pcall('INFO', section)
if type(ok) == 'string' then info = info .. ok .. '\\r\\n' end
end
return { num(NOW), info }`,
  journal: `local function journal(r)
return { num(NOW), r.rp or false, redis.call('HGETALL', steps) }
end
primary()
local r = load()
if not r or r.id ~= ARGV[3] then return no() end
return journal(r)`,
  keepEarly: `local r = load()
if not holds(r, ARGV[3], ARGV[4], ARGV[5], ARGV[6]) then return no() end
if r.st ~= 'in_progress' and r.st ~= 'retryable' then return no() end
if redis.call('HSETNX', steps, 'K' .. ARGV[7], pad(NOW) .. ARGV[8]) == 0 then primary() end
if not r.ks then
local n = copy(r)
n.ks = '1'
save(r, n)
end
return '1'`,
  park: `local r = load()
if r and r.id == ARGV[3] and r.x == ARGV[6] then
primary()
return '1'
end
if not holds(r, ARGV[3], 'in_progress', ARGV[4], ARGV[5]) then return no() end
local n = life(r)
n.st, n.er, n.x = ARGV[7], text(ARGV[8]), ARGV[6]
if ARGV[7] == 'retryable' then n.rs = later(ARGV[9]) else n.ra = later(ARGV[9]) end
save(r, n)
return '1'`,
  partitions: `local known = redis.call('GET', ix)
if known then return known end
redis.call('SET', ix, ARGV[3])
return ARGV[3]`,
  postpone: `local r = load()
if not holds(r, ARGV[3], ARGV[4], ARGV[5], ARGV[6]) or r.st ~= 'unknown' then return no() end
local n = copy(r)
n.ra, n.cl = later(ARGV[7]), nil
save(r, n)
return '1'`,
  prelude: `local ix, look, rec, steps, audit = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local d = ARGV[2]
local F = {
'id', 'st', 'at', 'tk', 'op', 'fv', 'fd', 'pr', 'ca', 'le', 'ex', 'lend', 'am', 'fi', 'fg',
'er', 'ra', 'rs', 'rp', 'tr', 'cl', 'x', 'ad', 'ks', 'tp', 't', 's', 'k'
}
local function num(n) return string.format('%.0f', n) end
local NOW = tonumber(ARGV[1])
if not NOW then
local t = redis.call('TIME')
NOW = t[1] * 1000 + math.floor(t[2] / 1000)
local last = tonumber(string.sub(ARGV[1], 2))
if last and NOW > last then return redis.error_reply('LATE ' .. num(NOW)) end
end
local function pad(n) return string.format('%016.0f', math.min(tonumber(n), 9007199254740991)) end
local function later(ms) if ms == '' then return nil end return num(NOW + tonumber(ms)) end
local function text(v) if v == '' then return nil end return string.sub(v, 2) end
local function primary() redis.call('HDEL', look, '') end
local function no()
primary()
return false
end
local function load()
local v = redis.call('HMGET', rec, unpack(F))
if not v[1] then return nil end
local r = {}
for i = 1, #F do if v[i] then r[F[i]] = v[i] end end
return r
end
local function copy(r)
local c = {}
for k, v in pairs(r) do c[k] = v end
return c
end
local function holds(r, id, st, at, tk)
return r and r.id == id and r.st == st and r.at == at and r.tk == tk
end
local function owned(id, at, tk)
local r = load()
if holds(r, id, 'in_progress', at, tk) then return r end
return nil
end
local function rescueAt(r)
if r.lend == 'reconcile' or tonumber(r.at) >= tonumber(r.am) then return tonumber(r.le) end
return math.max(tonumber(r.le), tonumber(r.ex))
end
local function entries(r)
local st = r.st
local e = { 's' .. st .. '\\0' .. pad(r.ca) .. r.id .. '\\0' .. d }
if st == 'pending' then
e[2] = 'p\\0' .. pad(r.ex) .. d
e[3] = 'P' .. r.op .. '\\0' .. pad(r.ca) .. pad(r.ex) .. d
elseif st == 'in_progress' then
e[2] = 'l\\0' .. pad(rescueAt(r)) .. d
if r.lend == 'resume' and tonumber(r.at) < tonumber(r.am) then
e[3] = 'R' .. r.op .. '\\0' .. pad(r.le) .. d
end
elseif st == 'completed' or st == 'failed' then
e[2] = 'f\\0' .. pad(r.ex) .. d
elseif st == 'expired' then
e[2] = 'e\\0' .. pad(r.fg) .. d
elseif st == 'unknown' and r.ra then
e[2] = 'U' .. r.op .. '\\0' .. pad(r.ra) .. d
elseif st == 'retryable' and r.rs then
e[2] = 'R' .. r.op .. '\\0' .. pad(r.rs) .. d
end
if st == 'unknown' and r.ks then e[#e + 1] = 'K\\0' .. pad(r.ca) .. d end
return e
end
local function enter(e)
for _, m in ipairs(e) do redis.call('ZADD', ix, 0, m) end
end
local function strike(e, kept)
for _, m in ipairs(e) do
local stays = false
for _, k in ipairs(kept) do if k == m then stays = true end end
if not stays then redis.call('ZREM', ix, m) end
end
end
local function save(old, new)
local e = entries(new)
enter(e)
redis.call('HSET', look, 'i' .. new.id, d)
local set, del = {}, {}
for _, f in ipairs(F) do
local a, b = old and old[f], new[f]
if b == nil then
if a then del[#del + 1] = f end
elseif a ~= b then
set[#set + 1] = f
set[#set + 1] = b
end
end
if #set > 0 then redis.call('HSET', rec, unpack(set)) end
if #del > 0 then redis.call('HDEL', rec, unpack(del)) end
if old then strike(entries(old), e) end
end
local function view(r)
local v = { num(NOW), false }
if r then
v[2] = redis.call('HGET', steps, 'A')
for i = 1, #F do v[i + 2] = r[F[i]] or false end
end
return v
end
local function meta(name)
local m = redis.call('HGET', steps, 'm' .. name)
return m and cjson.decode(m) or nil
end
local function callEntry(m)
return 'c' .. m.ef .. '\\0' .. pad(m.fi) .. m.dk .. '\\0' .. d
end
local function listed(m) return m.st == 'finished' end
local function saveCall(name, old, new)
if listed(new) then redis.call('ZADD', ix, 0, callEntry(new)) end
redis.call('HSET', look, 'c' .. new.dk, d .. name)
redis.call('HSET', steps, 'm' .. name, cjson.encode(new))
if old and listed(old) and not listed(new) then redis.call('ZREM', ix, callEntry(old)) end
if old and old.dk ~= new.dk then redis.call('HDEL', look, 'c' .. old.dk) end
end
local function metas()
local found = {}
for _, f in ipairs(redis.call('HKEYS', steps)) do
if string.sub(f, 1, 1) == 'm' then
local name = string.sub(f, 2)
found[#found + 1] = { name, meta(name) }
end
end
return found
end
local function forget(r)
for _, s in ipairs(metas()) do
local m = s[2]
if listed(m) then redis.call('ZREM', ix, callEntry(m)) end
redis.call('HDEL', look, 'c' .. m.dk)
end
redis.call('HDEL', look, 'i' .. r.id)
redis.call('DEL', rec, steps)
strike(entries(r), {})
end
local function life(r)
local n = copy(r)
n.le, n.ex, n.lend, n.am, n.fi, n.fg, n.er, n.ra, n.rs, n.cl, n.x = nil
return n
end
local function lease(n, leaseMs, abandonMs, lend, am)
n.st = 'in_progress'
n.le = num(NOW + tonumber(leaseMs))
n.ex = num(tonumber(n.ca) + tonumber(abandonMs))
n.lend, n.am = lend, am
return n
end
local function finish(r, st, answer, retentionMs, forgetMs, er, x)
local n = life(r)
n.st, n.er, n.x = st, er, x
n.fi, n.ex, n.fg = num(NOW), num(NOW + tonumber(retentionMs)), num(NOW + tonumber(forgetMs))
if answer then redis.call('HSET', steps, 'A', answer) end
redis.call('HDEL', steps, 'I')
save(r, n)
return n
end`,
  range: `primary()
local from = '[' .. ARGV[3]
if ARGV[4] ~= '' then from = '(' .. ARGV[4] end
local to = '(' .. ARGV[3] .. '\\255'
if ARGV[6] ~= '' then to = '(' .. ARGV[3] .. pad(NOW + 1) end
if ARGV[7] ~= '' then to = '(' .. ARGV[3] .. ARGV[7] end
local found = redis.call('ZRANGEBYLEX', ix, from, to, 'LIMIT', 0, ARGV[5])
table.insert(found, 1, num(NOW))
return found`,
  read: `primary()
local r = load()
if r then
enter(entries(r))
redis.call('HSETNX', look, 'i' .. r.id, d)
end
return view(r)`,
  refence: `local function journal(r)
return { num(NOW), r.rp or false, redis.call('HGETALL', steps) }
end
local r = owned(ARGV[3], ARGV[4], ARGV[5]) or owned(ARGV[3], ARGV[4], ARGV[6])
if not r then return no() end
local n = copy(r)
n.tk, n.le = ARGV[6], later(ARGV[7])
save(r, n)
return journal(n)`,
  release: `local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r then return no() end
forget(r)
return '1'`,
  renew: `local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r or NOW >= tonumber(r.le) then return no() end
local n = copy(r)
n.le = later(ARGV[6])
save(r, n)
return '1'`,
  settle: `for _, row in ipairs(redis.call('LRANGE', audit, 0, -1)) do
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
return '1'`,
  startCall: `local function call(name)
local v = redis.call('HMGET', steps, 'm' .. name, 'i' .. name, 'r' .. name)
return { num(NOW), v[1], v[2], v[3], name }
end
local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r then return no() end
local name = ARGV[6]
local old = meta(name)
if not old then
local new = cjson.decode(ARGV[9])
new.st, new.n, new.sa, new.x = 'started', 1, num(NOW), ARGV[10]
redis.call('HSET', steps, 'i' .. name, ARGV[8])
saveCall(name, nil, new)
elseif old.x == ARGV[10] then
primary()
return call(name)
elseif tostring(old.g) == ARGV[7] and (old.st == 'started' or old.st == 'not_executed') then
local new = copy(old)
new.n, new.x = old.n + 1, ARGV[10]
if old.st == 'not_executed' then new.st, new.sa = 'started', num(NOW) end
saveCall(name, old, new)
else
primary()
end
return call(name)`,
  takeOver: `local r = load()
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
return view(n)`,
};
