-- The server's own information about its version and settings.
primary()
local info = ''
for _, section in ipairs({ 'server', 'memory', 'persistence' }) do
  local ok = redis.pcall('INFO', section)
  if type(ok) == 'string' then info = info .. ok .. '\r\n' end
end
return { num(NOW), info }
