-- The beginning of every script: functions that read a record, write it, and keep the index in step.
-- * KEYS: 1 index, 2 look-up table, 3 record, 4 steps, 5 audit. All of them are in one slot.
-- * ARGV: 1 the time, or nothing for the server's own, or "<" and a time by the server's clock after which the
-- script must not run any more; 2 the record's digest; then what the script takes.
-- * A record is a hash of short fields, all of which every script reads; Redis keeps such a hash in a third of
-- the memory that it takes with one long field. What may be long is in the hash of the steps: the answer
-- (`A`), the input (`I`), early settlements (`K` …), and for each step its fields as JSON (`m` and its name),
-- its input (`i` …) and its result (`r` …).
-- * The index is one ordered set of texts, all of score 0, so that it is ordered as bytes: see `entries`. A
-- script that writes a record passes its old and its new version (`save`), from which the entries follow.
-- * Only a primary may decide. So a script that writes nothing else makes a write that changes nothing
-- (`primary`, `no`), which a replica refuses. A script that writes must not make it as well: Redis checks only
-- before a script's first write whether there is memory left.
-- * Redis does not undo a script that fails in the middle. So everything is checked before the first write.
local ix, look, rec, steps, audit = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local d = ARGV[2]
-- As recordFields in fields.ts, where they are described.
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
  local e = { 's' .. st .. '\0' .. pad(r.ca) .. r.id .. '\0' .. d }
  if st == 'pending' then
    e[2] = 'p\0' .. pad(r.ex) .. d
    e[3] = 'P' .. r.op .. '\0' .. pad(r.ca) .. pad(r.ex) .. d
  elseif st == 'in_progress' then
    e[2] = 'l\0' .. pad(rescueAt(r)) .. d
    if r.lend == 'resume' and tonumber(r.at) < tonumber(r.am) then
      e[3] = 'R' .. r.op .. '\0' .. pad(r.le) .. d
    end
  elseif st == 'completed' or st == 'failed' then
    e[2] = 'f\0' .. pad(r.ex) .. d
  elseif st == 'expired' then
    e[2] = 'e\0' .. pad(r.fg) .. d
  elseif st == 'unknown' and r.ra then
    e[2] = 'U' .. r.op .. '\0' .. pad(r.ra) .. d
  elseif st == 'retryable' and r.rs then
    e[2] = 'R' .. r.op .. '\0' .. pad(r.rs) .. d
  end
  if st == 'unknown' and r.ks then e[#e + 1] = 'K\0' .. pad(r.ca) .. d end
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
  return 'c' .. m.ef .. '\0' .. pad(m.fi) .. m.dk .. '\0' .. d
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
end
