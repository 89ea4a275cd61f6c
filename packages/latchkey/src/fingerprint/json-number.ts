/**
 * The canonical form (RFC 8785: as ECMAScript prints it) of a number from a JSON text, or null if a double does not
 * hold it exactly.
 *
 * "Exactly" means: the decimal value of the source text is the decimal value that ECMAScript prints for the double
 * nearest to it. So `0.1`, `1.0` (as `1`), `1e2` (as `100`) and `-0` (as `0`) have a canonical form, while
 * `9007199254740993`, `1e400` and `0.1000000000000000055` have none, and two numbers with the same canonical form
 * always have the same decimal value.
 */
export function canonicalNumber(source: string): string | null {
  const value = Number(source);
  if (!Number.isFinite(value)) return null;
  const printed = String(value);
  if (printed === source) return printed;
  return sameDecimal(decimal(source), decimal(printed)) ? printed : null;
}

/** The value `0.DIGITS × 10^exponent`, with neither leading nor trailing zeros among the digits. */
interface Decimal {
  readonly negative: boolean;
  readonly digits: string;
  readonly exponent: number;
}

const ZERO: Decimal = { negative: false, digits: "", exponent: 0 };

/**
 * An exponent with more than 15 digits is rounded here. That cannot make two values equal: the other side is what
 * a double prints, and its exponent is within ±400.
 */
function decimal(text: string): Decimal {
  const negative = text.charCodeAt(0) === 0x2d;
  const exponentAt = exponentPosition(text);
  const mantissa = text.slice(negative ? 1 : 0, exponentAt);
  const point = mantissa.indexOf(".");
  const integerDigits = point === -1 ? mantissa.length : point;
  const digits = point === -1 ? mantissa : mantissa.slice(0, point) + mantissa.slice(point + 1);
  let start = 0;
  let end = digits.length;
  while (digits.charCodeAt(start) === 0x30) start++;
  if (start === end) return ZERO;
  while (digits.charCodeAt(end - 1) === 0x30) end--;
  const written = exponentAt === text.length ? 0 : Number(text.slice(exponentAt + 1));
  return { negative, digits: digits.slice(start, end), exponent: written + integerDigits - start };
}

function exponentPosition(text: string): number {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x65 || code === 0x45) return index;
  }
  return text.length;
}

function sameDecimal(left: Decimal, right: Decimal): boolean {
  return left.negative === right.negative && left.exponent === right.exponent && left.digits === right.digits;
}
