primary()
return redis.call('LRANGE', audit, 0, -1)
