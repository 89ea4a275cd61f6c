import { isDigit } from "./characters.ts";

/**
 * Receives the tokens of a JSON text in order. Positions are indexes into the scanned text, `end` exclusive; those
 * of names and strings include the quotes, and `escaped` is whether there is a backslash between them.
 */
export interface JsonSink {
  open(kind: "object" | "array"): void;
  close(): void;
  name(start: number, end: number, escaped: boolean): void;
  string(start: number, end: number, escaped: boolean): void;
  number(start: number, end: number): void;
  literal(start: number, end: number): void;
}

export type ScanResult = "json" | "not-json" | "too-deep";

/**
 * Reads one JSON text (RFC 8259) strictly, in one pass and without recursion. Tokens reach the sink before the
 * rest of the text has been checked. Reading stops where more than `maxDepth` arrays and objects are open.
 */
export function scanJson(text: string, sink: JsonSink, maxDepth: number): ScanResult {
  return new JsonScanner(text, sink, maxDepth).scan();
}

type Expected = "value" | "value-or-close" | "name" | "name-or-close" | "comma-or-close" | "end";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LITERALS: Readonly<Record<number, string>> = { 116: "true", 102: "false", 110: "null" };

/** Every method returns false where the text breaks the grammar. */
class JsonScanner {
  readonly #text: string;
  readonly #sink: JsonSink;
  readonly #maxDepth: number;
  readonly #open: ("object" | "array")[] = [];
  #position = 0;
  #expected: Expected = "value";
  #tooDeep = false;

  constructor(text: string, sink: JsonSink, maxDepth: number) {
    this.#text = text;
    this.#sink = sink;
    this.#maxDepth = maxDepth;
  }

  scan(): ScanResult {
    for (;;) {
      this.#skipWhitespace();
      if (this.#expected === "end") return this.#position === this.#text.length ? "json" : "not-json";
      if (!this.#token()) return this.#tooDeep ? "too-deep" : "not-json";
    }
  }

  #code(): number {
    return this.#text.charCodeAt(this.#position);
  }

  #skipWhitespace(): void {
    while (isWhitespace(this.#code())) this.#position++;
  }

  #token(): boolean {
    const code = this.#code();
    switch (this.#expected) {
      case "value":
        return this.#value(code);
      case "value-or-close":
        return code === 0x5d ? this.#close() : this.#value(code);
      case "name":
        return this.#name(code);
      case "name-or-close":
        return code === 0x7d ? this.#close() : this.#name(code);
      case "comma-or-close":
        return this.#commaOrClose(code);
      case "end":
        return false;
    }
  }

  #value(code: number): boolean {
    if (code === 0x7b) return this.#openContainer("object", "name-or-close");
    if (code === 0x5b) return this.#openContainer("array", "value-or-close");
    if (code === QUOTE) return this.#string("string") && this.#afterValue();
    if (code === 0x2d || isDigit(code)) return this.#number() && this.#afterValue();
    return this.#literal(code) && this.#afterValue();
  }

  #openContainer(kind: "object" | "array", expected: Expected): boolean {
    if (this.#open.length >= this.#maxDepth) {
      this.#tooDeep = true;
      return false;
    }
    this.#position++;
    this.#open.push(kind);
    this.#sink.open(kind);
    this.#expected = expected;
    return true;
  }

  #close(): boolean {
    this.#position++;
    this.#open.pop();
    this.#sink.close();
    return this.#afterValue();
  }

  #afterValue(): boolean {
    this.#expected = this.#open.length === 0 ? "end" : "comma-or-close";
    return true;
  }

  #commaOrClose(code: number): boolean {
    const inObject = this.#open.at(-1) === "object";
    if (code === (inObject ? 0x7d : 0x5d)) return this.#close();
    if (code !== 0x2c) return false;
    this.#position++;
    this.#expected = inObject ? "name" : "value";
    return true;
  }

  #name(code: number): boolean {
    if (code !== QUOTE || !this.#string("name")) return false;
    this.#skipWhitespace();
    if (this.#code() !== 0x3a) return false;
    this.#position++;
    this.#expected = "value";
    return true;
  }

  #string(role: "name" | "string"): boolean {
    const start = this.#position++;
    let escaped = false;
    for (;;) {
      const code = this.#code();
      // NaN, the end of the text, fails this comparison too.
      if (!(code >= 0x20)) return false;
      if (code === QUOTE) break;
      if (code === BACKSLASH) {
        escaped = true;
        if (!this.#escape()) return false;
      } else {
        this.#position++;
      }
    }
    this.#position++;
    if (role === "name") this.#sink.name(start, this.#position, escaped);
    else this.#sink.string(start, this.#position, escaped);
    return true;
  }

  #escape(): boolean {
    const code = this.#text.charCodeAt(this.#position + 1);
    if (code !== 0x75) {
      this.#position += 2;
      return isShortEscape(code);
    }
    for (let index = 2; index < 6; index++) {
      if (!isHexDigit(this.#text.charCodeAt(this.#position + index))) return false;
    }
    this.#position += 6;
    return true;
  }

  #number(): boolean {
    const start = this.#position;
    if (this.#code() === 0x2d) this.#position++;
    if (this.#code() === 0x30) this.#position++;
    else if (!this.#digits()) return false;
    if (this.#code() === 0x2e) {
      this.#position++;
      if (!this.#digits()) return false;
    }
    if (this.#code() === 0x65 || this.#code() === 0x45) {
      this.#position++;
      if (this.#code() === 0x2b || this.#code() === 0x2d) this.#position++;
      if (!this.#digits()) return false;
    }
    this.#sink.number(start, this.#position);
    return true;
  }

  #digits(): boolean {
    const start = this.#position;
    while (isDigit(this.#code())) this.#position++;
    return this.#position > start;
  }

  #literal(code: number): boolean {
    const literal = LITERALS[code];
    if (literal === undefined || !this.#text.startsWith(literal, this.#position)) return false;
    const start = this.#position;
    this.#position += literal.length;
    this.#sink.literal(start, this.#position);
    return true;
  }
}

function isWhitespace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function isHexDigit(code: number): boolean {
  return isDigit(code) || (code >= 0x41 && code <= 0x46) || (code >= 0x61 && code <= 0x66);
}

/** One of `"` `\` `/` `b` `f` `n` `r` `t`. */
function isShortEscape(code: number): boolean {
  return (
    code === QUOTE ||
    code === BACKSLASH ||
    code === 0x2f ||
    code === 0x62 ||
    code === 0x66 ||
    code === 0x6e ||
    code === 0x72 ||
    code === 0x74
  );
}
