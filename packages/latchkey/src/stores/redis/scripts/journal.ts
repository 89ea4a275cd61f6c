/** The steps on the journal of a record, each by its owner alone. */
import { script } from "./script.ts";

const reply = `
local function journal(r)
  return { num(NOW), r.rp or false, redis.call('HGETALL', steps) }
end
`;

const callReply = `
local function call(name)
  local v = redis.call('HMGET', steps, 'm' .. name, 'i' .. name, 'r' .. name)
  return { num(NOW), v[1], v[2], v[3], name }
end
`;

export const journalScripts = {
  /** 3 the record's id. */
  journal: script(
    "journal",
    `${reply}
primary()
local r = load()
if not r or r.id ~= ARGV[3] then return no() end
return journal(r)`,
  ),

  /**
   * 3 to 5 the owner, 6 the step, 7 the generation, 8 the input, 9 the new step's fields as JSON, 10 a token
   * of this one call: sent again by the client itself, it counts once.
   */
  startCall: script(
    "start call",
    `${callReply}
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
    { begins: true },
  ),

  /** 3 to 5 the owner, 6 the step, 7 the generation, 8 its state then, 9 its result, or nothing. */
  endCall: script(
    "end call",
    `
local r = owned(ARGV[3], ARGV[4], ARGV[5])
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
  ),

  /** 3 to 5 the owner, 6 the new token, 7 the lease. */
  refence: script(
    "refence",
    `${reply}
local r = owned(ARGV[3], ARGV[4], ARGV[5]) or owned(ARGV[3], ARGV[4], ARGV[6])
if not r then return no() end
local n = copy(r)
n.tk, n.le = ARGV[6], later(ARGV[7])
save(r, n)
return journal(n)`,
  ),

  /** A call, with its record's fields. 3 the step. */
  call: script(
    "call",
    `${callReply}
primary()
local r = load()
if not r then return no() end
local c = call(ARGV[3])
if not c[2] then return no() end
return { view(r), c }`,
  ),
};
