/** What an object of options may hold: a name that means nothing is a mistake, and silence about it a promise not kept. */

/** Every option of `T`, by name. `satisfies` beside it makes a list that has fallen behind its type an error. */
export type OptionNames<T> = Readonly<Record<keyof T, true>>;

/**
 * @param what whose options they are, as an error begins
 * @throws {TypeError} when it is no object of options, or holds a name that is not known.
 */
export function checkOptions(what: string, given: unknown, known: Readonly<Record<string, true>>): void {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new TypeError(`${what}: the options must be an object (got ${shortly(given)})`);
  }
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || Object.hasOwn(known, name)) continue;
    const like = nearest(name, Object.keys(known));
    const remedy =
      like === null ? `Known are ${Object.keys(known).sort().join(", ")}.` : `Did you mean ${like}?`;
    throw new TypeError(`${what}: there is no option ${JSON.stringify(name)}. ${remedy}`);
  }
}

/**
 * @param ports what a factory was given as `ports`; a misspelt one would leave the system's in its place
 * @throws {TypeError} as `checkOptions`
 */
export function checkPorts(what: string, ports: unknown): void {
  if (ports !== undefined) checkOptions(`${what}: ports`, ports, { clock: true, random: true });
}

function shortly(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 40));
  return Array.isArray(value) ? "an array" : typeof value === "function" ? "a function" : String(value);
}

/** The known name that was probably meant: the beginning of one, or one that a few strokes make of it. */
function nearest(name: string, known: readonly string[]): string | null {
  const wanted = name.toLowerCase();
  const begins = known.filter((one) => wanted.length > 2 && one.toLowerCase().startsWith(wanted));
  const [only] = begins.sort((a, b) => a.length - b.length);
  if (only !== undefined) return only;
  const [best] = known
    .map((one) => ({ one, strokes: distance(wanted, one.toLowerCase()) }))
    .sort((a, b) => a.strokes - b.strokes);
  return best !== undefined && best.strokes <= Math.max(2, Math.floor(name.length / 3)) ? best.one : null;
}

/** Levenshtein's distance. Names of options are short; a longer name is like none. */
function distance(left: string, right: string): number {
  if (left.length > 64) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const same = left[i - 1] === right[j - 1] ? 0 : 1;
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + same));
    }
    row = next;
  }
  return row[right.length] ?? 0;
}
