/**
 * The JSON of a value that `JSON.parse` has made. Like `JSON.stringify`, but of any depth: `JSON.stringify` throws from some
 * thousands of levels on, which `JSON.parse` still reads, because it keeps no stack.
 */
export function jsonText(parsed: unknown): string {
  try {
    return JSON.stringify(parsed);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return deepText(parsed);
  }
}

/** Taken from the end of the list: texts are written as they are, values are taken apart first. */
type Part = { readonly text: string } | { readonly value: unknown };

function deepText(parsed: unknown): string {
  const texts: string[] = [];
  const left: Part[] = [{ value: parsed }];
  for (let part = left.pop(); part !== undefined; part = left.pop()) {
    if ("text" in part) texts.push(part.text);
    else if (typeof part.value !== "object" || part.value === null) texts.push(JSON.stringify(part.value));
    // Not spread, because a call takes only some ten thousand arguments.
    else for (const inside of partsOf(part.value).reverse()) left.push(inside);
  }
  return texts.join("");
}

function partsOf(value: object): Part[] {
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const members = Object.entries(value).flatMap(([name, member], at): Part[] => {
    const comma = at === 0 ? "" : ",";
    const label = Array.isArray(value) ? "" : `${JSON.stringify(name)}:`;
    return [{ text: comma + label }, { value: member }];
  });
  return [{ text: open }, ...members, { text: close }];
}
