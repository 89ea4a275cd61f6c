/**
 * Decodes the content of a JSON string token, quotes left out, whose grammar has been checked. Escaped surrogates
 * stay as they are, in pairs or alone.
 */
export function unescapeJson(content: string): string {
  const parts: string[] = [];
  let from = 0;
  for (let at = content.indexOf("\\"); at !== -1; at = content.indexOf("\\", from)) {
    parts.push(content.slice(from, at));
    const symbol = content.charAt(at + 1);
    if (symbol === "u") {
      parts.push(String.fromCharCode(Number.parseInt(content.slice(at + 2, at + 6), 16)));
      from = at + 6;
    } else {
      parts.push(SHORT_ESCAPES[symbol] ?? symbol);
      from = at + 2;
    }
  }
  parts.push(content.slice(from));
  return parts.join("");
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
