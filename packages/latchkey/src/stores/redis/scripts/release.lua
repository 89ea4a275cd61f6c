-- ARGV: 3 to 5 the owner. It leaves nothing that could answer a repetition.
local r = owned(ARGV[3], ARGV[4], ARGV[5])
if not r then return no() end
forget(r)
return '1'
