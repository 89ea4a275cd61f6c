-- The server's own information about its version and settings.
primary()
local said = ''
for _, section in ipairs({ 'server', 'memory', 'persistence' }) do
  local ok = redis.pcall('INFO', section)
  if type(ok) == 'string' then said = said .. ok .. '\r\n' end
end
return { num(NOW), said }
