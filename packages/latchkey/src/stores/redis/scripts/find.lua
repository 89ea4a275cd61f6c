-- ARGV: from 3 on names in the look-up table. Returns the time, then the value of each name.
primary()
local names = {}
for i = 3, #ARGV do names[#names + 1] = ARGV[i] end
local found = redis.call('HMGET', look, unpack(names))
table.insert(found, 1, num(NOW))
return found
