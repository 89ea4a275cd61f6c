-- Entries that begin with 3, after 4 (or from the first on), at most 5. 6: those due until now alone, which
-- have a time after what they begin with; 7: those before this, or nothing. The time comes first.
primary()
local from = '[' .. ARGV[3]
if ARGV[4] ~= '' then from = '(' .. ARGV[4] end
local to = '(' .. ARGV[3] .. '\255'
if ARGV[6] ~= '' then to = '(' .. ARGV[3] .. pad(NOW + 1) end
if ARGV[7] ~= '' then to = '(' .. ARGV[3] .. ARGV[7] end
local found = redis.call('ZRANGEBYLEX', ix, from, to, 'LIMIT', 0, ARGV[5])
table.insert(found, 1, num(NOW))
return found
