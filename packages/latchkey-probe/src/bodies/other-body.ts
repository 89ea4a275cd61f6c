/** Another request made of a JSON body, by the smallest change that a server is likely to accept. */

/**
 * The body with its first number increased by one, or otherwise its first string made longer; null if it has neither, or is
 * not JSON.
 */
export function otherBodyOf(body: string): string | null {
  const json = parsed(body);
  const changed = changeFirst(json, raise) ?? changeFirst(json, lengthen);
  return changed === undefined ? null : JSON.stringify(changed);
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function raise(leaf: unknown): unknown {
  return typeof leaf === "number" ? leaf + 1 : undefined;
}

function lengthen(leaf: unknown): unknown {
  return typeof leaf === "string" && !leaf.includes("{{") ? `${leaf}2` : undefined;
}

/** A copy in which the first leaf that `change` accepts is changed; undefined if it accepts none. */
function changeFirst(value: unknown, change: (leaf: unknown) => unknown): unknown {
  if (typeof value !== "object" || value === null) return change(value);
  for (const [name, member] of Object.entries(value)) {
    const changed = changeFirst(member, change);
    if (changed === undefined) continue;
    if (Array.isArray(value)) return value.map((each, index) => (String(index) === name ? changed : each));
    return { ...value, [name]: changed };
  }
  return undefined;
}
