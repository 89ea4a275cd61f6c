import {
  isDigit,
  isLetter,
  isLowerLetter,
  isPrintable,
  isTokenCharacter,
} from "../fingerprint/characters.ts";

/** A bare item of RFC 9651. Dates are seconds since 1970; `bytes` is decoded; a display string is decoded text. */
export type BareItem =
  | { readonly type: "integer"; readonly value: number }
  | { readonly type: "decimal"; readonly value: number }
  | { readonly type: "string"; readonly value: string }
  | { readonly type: "token"; readonly value: string }
  | { readonly type: "bytes"; readonly value: Uint8Array }
  | { readonly type: "boolean"; readonly value: boolean }
  | { readonly type: "date"; readonly value: number }
  | { readonly type: "display-string"; readonly value: string };

/** A bare item with its parameters, in the order of their first appearance; a repeated name keeps its last value. */
export interface Item {
  readonly value: BareItem;
  readonly parameters: ReadonlyMap<string, BareItem>;
}

/** `detail` names the rule that was broken and never quotes the input, so that it can be shown and logged. */
export type ItemResult =
  | { readonly ok: true; readonly item: Item }
  | { readonly ok: false; readonly detail: string };

/**
 * Parses one Item of RFC 9651 (section 4.2, "item") in one pass without backtracking.
 *
 * `input` is the field value as latin-1 text, one character per byte. Spaces (not tabs) around it are discarded.
 * Byte sequences may lack their padding and may have non-zero pad bits, as the RFC recommends.
 */
export function parseItem(input: string): ItemResult {
  const scanner = new ItemScanner(input);
  scanner.skipSpaces();
  const value = scanner.bareItem();
  const parameters = value === null ? null : scanner.parameters();
  if (value === null || parameters === null) return { ok: false, detail: scanner.fault };
  scanner.skipSpaces();
  if (!scanner.atEnd()) return { ok: false, detail: "there are characters after the value" };
  return { ok: true, item: { value, parameters } };
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MAX_INTEGER_DIGITS = 15;
const MAX_DECIMAL_INTEGER_DIGITS = 12;
const MAX_DECIMAL_FRACTION_DIGITS = 3;

/** Every method returns null after setting `fault`, or the parsed part after moving past it. */
class ItemScanner {
  fault = "";
  readonly #input: string;
  #position = 0;

  constructor(input: string) {
    this.#input = input;
  }

  atEnd(): boolean {
    return this.#position >= this.#input.length;
  }

  skipSpaces(): void {
    while (this.#code() === 0x20) this.#position++;
  }

  bareItem(): BareItem | null {
    const code = this.#code();
    if (code === QUOTE) return this.#string();
    if (code === 0x2d || isDigit(code)) return this.#number();
    if (code === 0x2a || isLetter(code)) return this.#token();
    if (code === 0x3a) return this.#bytes();
    if (code === 0x3f) return this.#boolean();
    if (code === 0x40) return this.#date();
    if (code === 0x25) return this.#displayString();
    return this.#fail(
      this.atEnd() ? "a value is missing" : "no structured-field value starts with this character",
    );
  }

  parameters(): Map<string, BareItem> | null {
    const parameters = new Map<string, BareItem>();
    while (this.#code() === 0x3b) {
      this.#position++;
      this.skipSpaces();
      const name = this.#parameterName();
      if (name === null) return null;
      let value: BareItem | null = { type: "boolean", value: true };
      if (this.#code() === 0x3d) {
        this.#position++;
        value = this.bareItem();
      }
      if (value === null) return null;
      parameters.set(name, value);
    }
    return parameters;
  }

  #code(): number {
    return this.#input.charCodeAt(this.#position);
  }

  #fail(detail: string): null {
    this.fault = detail;
    return null;
  }

  #parameterName(): string | null {
    const start = this.#position;
    if (this.#code() !== 0x2a && !isLowerLetter(this.#code()))
      return this.#fail("a parameter has no valid name");
    while (isParameterNameCharacter(this.#code())) this.#position++;
    return this.#input.slice(start, this.#position);
  }

  #string(): BareItem | null {
    const parts: string[] = [];
    let start = ++this.#position;
    for (;;) {
      const code = this.#code();
      if (code === QUOTE) break;
      if (code === BACKSLASH) {
        const escaped = this.#input.charCodeAt(this.#position + 1);
        if (escaped !== QUOTE && escaped !== BACKSLASH) return this.#fail("a String has an invalid escape");
        parts.push(this.#input.slice(start, this.#position));
        start = this.#position + 1;
        this.#position += 2;
      } else {
        if (this.atEnd()) return this.#fail("a String has no closing quote");
        if (!isPrintable(code)) return this.#fail("a String has a character outside printable ASCII");
        this.#position++;
      }
    }
    parts.push(this.#input.slice(start, this.#position++));
    return { type: "string", value: parts.join("") };
  }

  #number(): BareItem | null {
    const start = this.#position;
    if (this.#code() === 0x2d) this.#position++;
    const integerDigits = this.#skipDigits();
    if (integerDigits === 0) return this.#fail("a number has no digits");
    if (this.#code() !== 0x2e) {
      if (integerDigits > MAX_INTEGER_DIGITS) return this.#fail("an integer has more than 15 digits");
      return { type: "integer", value: this.#numberSince(start) };
    }
    this.#position++;
    const fractionDigits = this.#skipDigits();
    if (integerDigits > MAX_DECIMAL_INTEGER_DIGITS)
      return this.#fail("a decimal has more than 12 integer digits");
    if (fractionDigits === 0) return this.#fail("a decimal has no fraction digits");
    if (fractionDigits > MAX_DECIMAL_FRACTION_DIGITS)
      return this.#fail("a decimal has more than 3 fraction digits");
    return { type: "decimal", value: this.#numberSince(start) };
  }

  #skipDigits(): number {
    const start = this.#position;
    while (isDigit(this.#code())) this.#position++;
    return this.#position - start;
  }

  /** Adding zero turns -0 into 0: the RFC knows no negative zero. */
  #numberSince(start: number): number {
    return Number(this.#input.slice(start, this.#position)) + 0;
  }

  #token(): BareItem {
    const start = this.#position;
    while (isTokenCharacter(this.#code()) || this.#code() === 0x3a || this.#code() === 0x2f) this.#position++;
    return { type: "token", value: this.#input.slice(start, this.#position) };
  }

  #bytes(): BareItem | null {
    const start = ++this.#position;
    while (isBase64Letter(this.#code())) this.#position++;
    const letters = this.#position - start;
    while (this.#code() === 0x3d) this.#position++;
    const padding = this.#position - start - letters;
    if (this.#code() !== 0x3a) return this.#fail("a byte sequence is not Base64 between colons");
    const padded = padding === 0 || (letters + padding) % 4 === 0;
    if (letters % 4 === 1 || padding > 2 || !padded)
      return this.#fail("a byte sequence has invalid Base64 padding");
    const text = atob(this.#input.slice(start, start + letters));
    this.#position++;
    return { type: "bytes", value: Uint8Array.from(text, (character) => character.charCodeAt(0)) };
  }

  #boolean(): BareItem | null {
    const code = this.#input.charCodeAt(this.#position + 1);
    if (code !== 0x30 && code !== 0x31) return this.#fail("a boolean is neither ?0 nor ?1");
    this.#position += 2;
    return { type: "boolean", value: code === 0x31 };
  }

  #date(): BareItem | null {
    this.#position++;
    if (this.#code() !== 0x2d && !isDigit(this.#code())) return this.#fail("a date has no digits");
    const seconds = this.#number();
    if (seconds === null) return null;
    if (seconds.type !== "integer") return this.#fail("a date is not an integer");
    return { type: "date", value: seconds.value };
  }

  #displayString(): BareItem | null {
    if (this.#input.charCodeAt(this.#position + 1) !== QUOTE)
      return this.#fail("a display string has no opening quote");
    this.#position += 2;
    const bytes: number[] = [];
    for (let code = this.#code(); code !== QUOTE; code = this.#code()) {
      if (this.atEnd()) return this.#fail("a display string has no closing quote");
      if (!isPrintable(code)) return this.#fail("a display string has a character outside printable ASCII");
      const byte = code === 0x25 ? this.#escapedByte() : code;
      if (byte === null) return this.#fail("a display string has an invalid escape");
      bytes.push(byte);
      this.#position += code === 0x25 ? 3 : 1;
    }
    this.#position++;
    const value = decodeUtf8(Uint8Array.from(bytes));
    return value === null ? this.#fail("a display string is not UTF-8") : { type: "display-string", value };
  }

  #escapedByte(): number | null {
    const high = lowerHexValue(this.#input.charCodeAt(this.#position + 1));
    const low = lowerHexValue(this.#input.charCodeAt(this.#position + 2));
    return high === null || low === null ? null : high * 16 + low;
  }
}

function isParameterNameCharacter(code: number): boolean {
  return (
    isLowerLetter(code) || isDigit(code) || code === 0x5f || code === 0x2d || code === 0x2e || code === 0x2a
  );
}

function isBase64Letter(code: number): boolean {
  return isLetter(code) || isDigit(code) || code === 0x2b || code === 0x2f;
}

function lowerHexValue(code: number): number | null {
  if (isDigit(code)) return code - 0x30;
  return code >= 0x61 && code <= 0x66 ? code - 0x61 + 10 : null;
}

function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
