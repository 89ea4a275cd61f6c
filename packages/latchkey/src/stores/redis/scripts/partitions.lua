-- Stores, once, into how many partitions the records are divided: 3. Returns the stored number.
local known = redis.call('GET', ix)
if known then return known end
redis.call('SET', ix, ARGV[3])
return ARGV[3]
