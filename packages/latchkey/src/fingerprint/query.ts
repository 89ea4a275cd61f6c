import { isDigit, isLetter } from "./characters.ts";
import { compareCodeUnits } from "./code-units.ts";

/**
 * The pairs of a raw query string (without its `?`), sorted by name. Repeated names keep their order, since for
 * them order has a meaning (`sort=a&sort=b`).
 *
 * Percent-encoding is normalised only where RFC 3986 (section 6.2.2) says that the meaning is the same: hexadecimal
 * digits in upper case, and unreserved characters decoded. `+` and `%20`, `a` and `a=`, and `a&&b` and `a&b`
 * stay different. Names are compared by UTF-16 code units after that.
 */
export function sortedQuery(query: string): string[] {
  if (query === "") return [];
  return query
    .split("&")
    .map((raw) => {
      const pair = normalizePercentEncoding(raw);
      const equals = pair.indexOf("=");
      return { name: equals === -1 ? pair : pair.slice(0, equals), pair };
    })
    .sort((left, right) => compareCodeUnits(left.name, right.name))
    .map(({ pair }) => pair);
}

function normalizePercentEncoding(text: string): string {
  const [first, ...escapes] = text.split("%");
  if (first === undefined || escapes.length === 0) return text;
  return first + escapes.map(normalizeEscape).join("");
}

/** `digits` is what follows a percent sign, up to the next one. */
function normalizeEscape(digits: string): string {
  const high = hexValue(digits.charCodeAt(0));
  const low = hexValue(digits.charCodeAt(1));
  if (high === null || low === null) return `%${digits}`;
  const code = high * 16 + low;
  const decoded = isUnreserved(code) ? String.fromCharCode(code) : `%${digits.slice(0, 2).toUpperCase()}`;
  return decoded + digits.slice(2);
}

function hexValue(code: number): number | null {
  if (isDigit(code)) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : null;
}

/** Letters, digits and `-` `.` `_` `~`. */
function isUnreserved(code: number): boolean {
  return isLetter(code) || isDigit(code) || code === 0x2d || code === 0x2e || code === 0x5f || code === 0x7e;
}
