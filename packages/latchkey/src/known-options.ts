/** Checks the names in an object of options: an unknown name is a mistake, and an option ignored in silence is a promise not kept. */

/** Every option of `T`, by name. With `satisfies`, a list that lacks an option of its type does not compile. */
export type OptionNames<T> = Readonly<Record<keyof T, true>>;

/**
 * @param what whose options they are; errors begin with it
 * @throws {TypeError} when `given` is not an object, or holds an unknown name.
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
 * @param ports the `ports` that a factory was given; under a misspelt name the system's own would be used
 * @throws {TypeError} as `checkOptions`
 */
export function checkPorts(what: string, ports: unknown): void {
  if (ports !== undefined) checkOptions(`${what}: ports`, ports, { clock: true, random: true });
}

function shortly(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 40));
  return Array.isArray(value) ? "an array" : typeof value === "function" ? "a function" : String(value);
}

/** The known name that was probably meant: one that begins with the given name, or is a few edits away from it. */
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

/** The Levenshtein distance. Names of options are short, so a longer name resembles none of them. */
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
