/** Generated from the .lua files of this folder by `npm run docs:generate`. Do not edit. */
export const lua = {
  forget: `redis.call('SET', KEYS[1], '-', 'PX', ARGV[1])
return 1`,
  keep: `local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local left = math.min(tonumber(ARGV[2]) - now, tonumber(ARGV[3]))
if left <= 0 or redis.call('GET', KEYS[1]) == '-' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', left)
return 1`,
  look: `local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local v = redis.call('GET', KEYS[1])
if not v then return {now} end
return {now, v, redis.call('PTTL', KEYS[1])}`,
};
