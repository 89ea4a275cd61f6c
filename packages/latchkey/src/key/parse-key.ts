import { isPrintable, isVisible } from "../fingerprint/characters.ts";
import { looksPersonal } from "./looks-personal.ts";
import { parseItem } from "./structured-field.ts";

/** No key is longer than this after decoding; it is also the default `maxLength`. */
export const MAX_KEY_LENGTH = 255;

export interface ParseKeyOptions {
  /**
   * `"compat"` (default): a String of RFC 9651, or a bare value of visible ASCII without comma or double quote;
   * `"k"` and `k` are the same key. `"strict"`: a String only. `"opaque"`: printable ASCII as it was sent, so that spaces,
   * commas and quotes inside belong to the key, and `"k"` and `k` are two keys.
   */
  readonly syntax?: "compat" | "strict" | "opaque" | undefined;
  /** Least number of characters after decoding. Default 1. */
  readonly minLength?: number | undefined;
  /** Greatest number of characters after decoding, at most 255. Default 255. */
  readonly maxLength?: number | undefined;
  /**
   * Searched in the decoded key after the length limits; anchor it (`^…$`) to match the whole key. Default none.
   * Its cost is the user's own responsibility: a pattern that backtracks can be made slow by a client, within
   * `maxLength` characters. The flags `g` and `y` carry no state from one key to the next.
   */
  readonly pattern?: RegExp | undefined;
  /** Refuses keys that look like an e-mail address or a phone number, see `looksPersonal`. Default false. */
  readonly refusePersonal?: boolean | undefined;
  /**
   * The one line comes from a Fetch `Headers`, which joins repeated field lines with a comma: a comma outside a
   * quoted String is reported as a repeat; under `"opaque"` one that is followed by a space. Two lines `"a` and `b"` cannot be
   * distinguished from one line `"a, b"` there. Default false.
   */
  readonly joined?: boolean | undefined;
}

/** `detail` names what to correct and never contains the key. */
export type KeyResult =
  | { readonly ok: true; readonly key: string }
  | { readonly ok: false; readonly reason: "missing" | "invalid"; readonly detail: string };

/**
 * Reads the idempotency key from the field lines of its header.
 *
 * `lines` are the values as received, one per field line, as latin-1 text: `[]` is an absent header (`missing`),
 * `[""]` an empty one and several lines a repeated one (both `invalid`). On Node take them from
 * `headersDistinct`, since `headers` joins repeats.
 *
 * Spaces (not tabs) around the value are discarded. Parameters after a String are checked and ignored. Spaces
 * inside a quoted key belong to the key, so stores must compare keys exactly; a key of spaces alone is empty. What a
 * client's bug leaves in the place of a key (`undefined`, `null`, `NaN`, `[object Object]`) is invalid.
 *
 * @throws TypeError if the length limits are not whole numbers with 1 ≤ minLength ≤ maxLength ≤ 255.
 */
export function parseKey(lines: readonly string[], options: ParseKeyOptions = {}): KeyResult {
  const { minLength = 1, maxLength = MAX_KEY_LENGTH } = options;
  checkLimits(minLength, maxLength);
  const [line] = lines;
  if (line === undefined) {
    return { ok: false, reason: "missing", detail: "The idempotency key header is missing." };
  }
  const { syntax = "compat" } = options;
  if (lines.length > 1 || (options.joined === true && mayBeJoined(line, syntax))) {
    return invalid("The idempotency key header occurs more than once.");
  }
  const decoded = decode(line, syntax);
  if (!decoded.ok) return decoded;
  return checkKey(decoded.key, minLength, maxLength, options);
}

function invalid(detail: string): KeyResult {
  return { ok: false, reason: "invalid", detail };
}

function checkLimits(minLength: number, maxLength: number): void {
  const whole = Number.isInteger(minLength) && Number.isInteger(maxLength);
  if (!whole || minLength < 1 || maxLength < minLength || maxLength > MAX_KEY_LENGTH) {
    throw new TypeError("key length limits must be whole numbers with 1 <= minLength <= maxLength <= 255");
  }
}

type Syntax = NonNullable<ParseKeyOptions["syntax"]>;

function decode(line: string, syntax: Syntax): KeyResult {
  const value = trimSpaces(line);
  if (value === "") return invalid("The idempotency key is empty.");
  if (syntax === "opaque") return decodeOpaque(value);
  if (syntax === "compat" && value.charCodeAt(0) !== 0x22) return decodeBare(value);
  const plain = plainString.exec(value)?.[1];
  if (plain !== undefined) return { ok: true, key: plain };
  const result = parseItem(value);
  if (!result.ok) return invalid(`The idempotency key is malformed: ${result.detail}.`);
  const bareItem = result.item.value;
  if (bareItem.type === "string") return { ok: true, key: bareItem.value };
  return invalid(`The idempotency key must be a quoted String; as sent it is of type ${bareItem.type}.`);
}

/** What nearly all keys are: a String of RFC 9651 without escapes and parameters. */
const plainString = /^"([ !#-[\]-~]*)"$/;

function decodeBare(value: string): KeyResult {
  for (let index = 0; index < value.length; index++) {
    const code = value.charCodeAt(index);
    if (!isVisible(code) || code === 0x22 || code === 0x2c) {
      return invalid(
        "An unquoted idempotency key may contain only visible ASCII, without commas, double quotes and spaces.",
      );
    }
  }
  return { ok: true, key: value };
}

function decodeOpaque(value: string): KeyResult {
  for (let index = 0; index < value.length; index++) {
    if (!isPrintable(value.charCodeAt(index))) {
      return invalid("An idempotency key may contain only printable ASCII.");
    }
  }
  return { ok: true, key: value };
}

function checkKey(key: string, minLength: number, maxLength: number, options: ParseKeyOptions): KeyResult {
  if (trimSpaces(key) === "") return invalid("The idempotency key is empty.");
  if (key.length < minLength) return invalid(`The idempotency key has fewer than ${minLength} characters.`);
  if (key.length > maxLength) return invalid(`The idempotency key has more than ${maxLength} characters.`);
  // `search` ignores lastIndex, so that a pattern with the flag g does not refuse every other key.
  if (options.pattern !== undefined && key.search(options.pattern) === -1) {
    return invalid("The idempotency key does not have the required form.");
  }
  if (isPlaceholderKey(key)) {
    return invalid(
      'The idempotency key stands for no value ("undefined", "null", "NaN", "[object Object]" or a template that was not filled in); send a new random value such as a UUID.',
    );
  }
  if (options.refusePersonal === true && looksPersonal(key) !== null) {
    return invalid("The idempotency key looks like personal data; use a random value such as a UUID.");
  }
  return { ok: true, key };
}

function trimSpaces(text: string): string {
  let start = 0;
  let end = text.length;
  while (text.charCodeAt(start) === 0x20) start++;
  while (end > start && text.charCodeAt(end - 1) === 0x20) end--;
  return text.slice(start, end);
}

/** `Headers` joins field lines with a comma and a space. */
function mayBeJoined(line: string, syntax: Syntax): boolean {
  return syntax === "opaque" ? line.includes(", ") : hasBareComma(line);
}

function hasBareComma(line: string): boolean {
  let quoted = false;
  for (let index = 0; index < line.length; index++) {
    const code = line.charCodeAt(index);
    if (code === 0x22) quoted = !quoted;
    else if (quoted && code === 0x5c) index++;
    else if (!quoted && code === 0x2c) return true;
  }
  return false;
}

/**
 * Whether a key is what a faulty client sends in place of a key: the text of a missing value, or a template that was not
 * filled in. All requests of such a client have the same key, so one customer's order would be taken for a retry of another's.
 */
export function isPlaceholderKey(key: string): boolean {
  return placeholder.test(key);
}

/** `None` and `nil` are how Python, Ruby and Go write nothing; Objective-C and Swift write `(null)`, Go also `<nil>`. */
const placeholder =
  /^\s*(?:undefined|null|nan|none|nil|\(null\)|<nil>|<null>|\[object [\w ]*\]|\{\{[^{}]*\}\}|\$\{[^{}]*\})\s*$/iu;
