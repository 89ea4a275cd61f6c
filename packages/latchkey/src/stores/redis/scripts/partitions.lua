-- ARGV: 3 the number of partitions, which is stored if none is stored yet. Returns the stored number.
local known = redis.call('GET', ix)
if known then return known end
redis.call('SET', ix, ARGV[3])
return ARGV[3]
