-- Replaces a copy with a mark, until readings from before the removal can no longer arrive.
redis.call('SET', KEYS[1], '-', 'PX', ARGV[1])
return 1
