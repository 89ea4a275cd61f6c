/** One text for one value: what has the same text is the same. */

export function textOf(value: unknown): string {
  return JSON.stringify(value, readable) ?? "nothing";
}

/** Bytes as text; JSON would make a list of numbers of some and an object of others. */
function readable(this: Readonly<Record<string, unknown>>, name: string, part: unknown): unknown {
  const own = this[name];
  if (own instanceof Uint8Array) return `\u0000${Buffer.from(own).toString("latin1")}`;
  if (own instanceof Error) return `\u0000${own.name}: ${own.message}`;
  if (typeof own === "function") throw new TypeError(`${name} is a function, and nothing that can be sent`);
  return part === undefined ? "\u0000nothing" : part;
}

export function isSame(left: unknown, right: unknown): boolean {
  return left === right || textOf(left) === textOf(right);
}
