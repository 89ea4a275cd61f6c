-- The time of this Redis in milliseconds; and the copy with the time that it has left, if there is one.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local v = redis.call('GET', KEYS[1])
if not v then return {now} end
return {now, v, redis.call('PTTL', KEYS[1])}
