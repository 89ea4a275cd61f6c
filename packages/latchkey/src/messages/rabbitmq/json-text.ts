/**
 * What `JSON.parse` has made of a text, as JSON. Like `JSON.stringify`, and at any depth: that one throws from some thousands
 * on, where the parser, which keeps no stack, has not.
 */
export function jsonText(parsed: unknown): string {
  try {
    return JSON.stringify(parsed);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return deepText(parsed);
  }
}

/** Written from the end of the list: texts as they are, everything else still to be opened. */
type Part = { readonly text: string } | { readonly value: unknown };

function deepText(parsed: unknown): string {
  const texts: string[] = [];
  const left: Part[] = [{ value: parsed }];
  for (let part = left.pop(); part !== undefined; part = left.pop()) {
    if ("text" in part) texts.push(part.text);
    else if (typeof part.value !== "object" || part.value === null) texts.push(JSON.stringify(part.value));
    // Not spread: a call has room for some ten thousand arguments.
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
