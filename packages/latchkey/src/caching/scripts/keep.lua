-- Keeps the copy until a point of this Redis's time. Not where the record was just forgotten: the reading may be from before that.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local left = math.min(tonumber(ARGV[2]) - now, tonumber(ARGV[3]))
if left <= 0 or redis.call('GET', KEYS[1]) == '-' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', left)
return 1
