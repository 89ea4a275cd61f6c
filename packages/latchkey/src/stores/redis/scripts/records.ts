/**
 * The steps on one record. False is "the guard did not hold, nothing was written". Each is harmless when a client sends
 * it twice: the second time finds either its own work, which it answers again, or a guard that no longer holds.
 */
import { script } from "./script.ts";

export const recordScripts = {
  /**
   * The record, and the entries of the index that it should have: one that was lost comes back.
   */
  read: script(
    "read",
    `
primary()
local r = load()
if r then
  enter(entries(r))
  redis.call('HSETNX', look, 'i' .. r.id, d)
end
return view(r)`,
    { timed: true },
  ),

  /**
   * A life begins: 3 its state, 4 to 7 the guard on what it replaces (or nothing), 8 lease or expiry, 9 abandonment, 10
   * the input with one character before it (or nothing), from 11 on the record's fields in pairs, among them a token
   * of this one call: sent again by the client itself, it is answered again.
   */
  begin: script(
    "begin",
    `
local new = { ca = num(NOW) }
for i = 11, #ARGV, 2 do new[ARGV[i]] = ARGV[i + 1] end
local old = load()
if old and old.id == new.id and old.x == new.x then
  primary()
  return view(old)
end
local guarded = ARGV[4] ~= ''
-- A transaction that was lost is no reason to run again, whatever has become of the record it was to replace.
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
    { begins: true },
  ),

  /** 3 to 6 the guard, 7 and 8 the fingerprint, 9 the token, 10 to 13 the terms, 14 a token of this one call. */
  takeOver: script(
    "take over",
    `
local r = load()
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
    { begins: true },
  ),

  /** 3 the operation, 4 the token, 5 to 8 the terms. */
  claimPending: script(
    "claim pending",
    `
local r = load()
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
    { begins: true },
  ),

  /** 3 to 5 the owner, 6 the lease. */
  renew: script(
    "renew",
    `
local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r or NOW >= tonumber(r.le) then return no() end
local n = copy(r)
n.le = later(ARGV[6])
save(r, n)
return '1'`,
  ),

  /** 3 to 5 the owner, 6 a token of this one call, 7 the state, 8 the answer, 9 and 10 its retention, 11 the error's code. */
  finish: script(
    "finish",
    `
local r = load()
if r and r.id == ARGV[3] and r.x == ARGV[6] then
  primary()
  return r.ex or ''
end
if not holds(r, ARGV[3], 'in_progress', ARGV[4], ARGV[5]) then return no() end
return finish(r, ARGV[7], ARGV[8], ARGV[9], ARGV[10], text(ARGV[11]), ARGV[6]).ex`,
  ),

  /** 3 to 5 the owner. It leaves nothing that could answer a repetition. */
  release: script(
    "release",
    `
local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r then return no() end
forget(r)
return '1'`,
  ),

  /** 3 to 5 the owner, 6 a token of this one call, 7 the state, 8 the error's code, 9 how long until a worker comes back. */
  park: script(
    "park",
    `
local r = load()
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
  ),

  /** 3 to 6 the guard, 7 the error's code, 8 how long until reconciliation, 9 a token of this one call. */
  giveUp: script(
    "give up",
    `
local r = load()
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
  ),

  /** The record-cleaner's edges on one record. 3 which. */
  clean: script(
    "clean",
    `
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
return '1'`,
  ),
};
