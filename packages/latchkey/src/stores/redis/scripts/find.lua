-- The entries of the look-up table under the names from 3 on; the time comes first.
primary()
local names = {}
for i = 3, #ARGV do names[#names + 1] = ARGV[i] end
local found = redis.call('HMGET', look, unpack(names))
table.insert(found, 1, num(NOW))
return found
