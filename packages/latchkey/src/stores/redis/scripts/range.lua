-- Entries of the index. ARGV: 3 what they begin with, 4 the entry after which they start (or nothing: with the
-- first), 5 how many at most, 6 whether only those that are due, in which a time follows 3, 7 what the rest of
-- an entry must come before (or nothing). Returns the time, then the entries.
primary()
local from = '[' .. ARGV[3]
if ARGV[4] ~= '' then from = '(' .. ARGV[4] end
local to = '(' .. ARGV[3] .. '\255'
if ARGV[6] ~= '' then to = '(' .. ARGV[3] .. pad(NOW + 1) end
if ARGV[7] ~= '' then to = '(' .. ARGV[3] .. ARGV[7] end
local found = redis.call('ZRANGEBYLEX', ix, from, to, 'LIMIT', 0, ARGV[5])
table.insert(found, 1, num(NOW))
return found
