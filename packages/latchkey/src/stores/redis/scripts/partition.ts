/** What is asked of the index of a partition, and of its server. Only the index and the look-up table are touched. */
import { script } from "./script.ts";

export const partitionScripts = {
  /**
   * Entries that begin with 3, after 4 (or from the first on), at most 5. 6: those due until now alone, which have a time
   * after what they begin with; 7: those before this, or nothing. The
   * time comes first.
   */
  range: script(
    "range",
    `
primary()
local from = '[' .. ARGV[3]
if ARGV[4] ~= '' then from = '(' .. ARGV[4] end
local to = '(' .. ARGV[3] .. '\\255'
if ARGV[6] ~= '' then to = '(' .. ARGV[3] .. pad(NOW + 1) end
if ARGV[7] ~= '' then to = '(' .. ARGV[3] .. ARGV[7] end
local found = redis.call('ZRANGEBYLEX', ix, from, to, 'LIMIT', 0, ARGV[5])
table.insert(found, 1, num(NOW))
return found`,
    { timed: true },
  ),

  /** What is known under the names from 3 on; the time comes first. */
  find: script(
    "find",
    `
primary()
local names = {}
for i = 3, #ARGV do names[#names + 1] = ARGV[i] end
local found = redis.call('HMGET', look, unpack(names))
table.insert(found, 1, num(NOW))
return found`,
    { timed: true },
  ),

  /** What the server says about itself. */
  inspect: script(
    "inspect",
    `
primary()
local said = ''
for _, section in ipairs({ 'server', 'memory', 'persistence' }) do
  local ok = redis.pcall('INFO', section)
  if type(ok) == 'string' then said = said .. ok .. '\\r\\n' end
end
return { num(NOW), said }`,
    { timed: true },
  ),

  /** Writes down, once, into how many partitions the records are divided: 3. Answers what was written. */
  partitions: script(
    "partitions",
    `
local known = redis.call('GET', ix)
if known then return known end
redis.call('SET', ix, ARGV[3])
return ARGV[3]`,
  ),
};
