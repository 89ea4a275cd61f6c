import { isDigit } from "./characters.ts";
import { canonicalNumber } from "./json-number.ts";

/** Beyond these a text is not plain: the members of one object are put in order one by one, and values are read by recursion. */
const membersMax = 32;
const depthMax = 32;
/** A double holds every whole number of so many digits. */
const exactDigitsMax = 15;

/**
 * The canonical form (RFC 8785) of a plain JSON text, in a third of the time of `parseJsonTree`. Null: it is not plain (it
 * has an exponent, an escape that is not needed, many members, deep nesting), or has no canonical form; `parseJsonTree` then says which.
 */
export function plainCanonical(text: string, maxDepth: number): string | null {
  return new PlainReader(text, Math.min(maxDepth, depthMax)).read();
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;

/** Every method returns null where the text is not plain, or the canonical part after moving past it. */
class PlainReader {
  readonly #text: string;
  readonly #maxDepth: number;
  #position = 0;
  #depth = 0;

  constructor(text: string, maxDepth: number) {
    this.#text = text;
    this.#maxDepth = maxDepth;
  }

  read(): string | null {
    const value = this.#value(this.#next());
    return Number.isNaN(this.#next()) ? value : null;
  }

  /** The next character that is no whitespace; NaN at the end. */
  #next(): number {
    let code = this.#text.charCodeAt(this.#position);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) {
      code = this.#text.charCodeAt(++this.#position);
    }
    return code;
  }

  #value(code: number): string | null {
    if (code === QUOTE) return this.#string();
    if (isDigit(code) || code === 0x2d) return this.#number();
    if (code === 0x7b || code === 0x5b) return this.#nested(code === 0x7b);
    if (code === 0x74) return this.#literal("true");
    if (code === 0x66) return this.#literal("false");
    return code === 0x6e ? this.#literal("null") : null;
  }

  #nested(isObject: boolean): string | null {
    if (this.#depth === this.#maxDepth) return null;
    this.#depth++;
    this.#position++;
    const value = isObject ? this.#object() : this.#array();
    this.#depth--;
    return value;
  }

  #object(): string | null {
    const names: string[] = [];
    const values: string[] = [];
    if (this.#next() === 0x7d) return this.#closed("{}");
    for (;;) {
      const name = this.#next() === QUOTE ? this.#name() : null;
      if (name === null || this.#next() !== 0x3a) return null;
      this.#position++;
      const value = this.#value(this.#next());
      if (value === null || !insert(names, values, name, value)) return null;
      const code = this.#next();
      if (code === 0x7d) return this.#closed(joined(names, values));
      if (code !== COMMA) return null;
      this.#position++;
    }
  }

  #array(): string | null {
    if (this.#next() === 0x5d) return this.#closed("[]");
    let items = "[";
    for (;;) {
      const value = this.#value(this.#next());
      if (value === null) return null;
      items += value;
      const code = this.#next();
      if (code === 0x5d) return this.#closed(`${items}]`);
      if (code !== COMMA) return null;
      items += ",";
      this.#position++;
    }
  }

  #closed(value: string): string {
    this.#position++;
    return value;
  }

  /** With its quotes. The source is the canonical form where its only escapes are those that have to be there. */
  #string(): string | null {
    const start = this.#position++;
    for (;;) {
      const code = this.#text.charCodeAt(this.#position++);
      // NaN, the end of the text, fails this comparison too.
      if (!(code >= 0x20)) return null;
      if (code === QUOTE) return this.#text.slice(start, this.#position);
      if (code === BACKSLASH && !isNeededEscape(this.#text.charCodeAt(this.#position++))) return null;
    }
  }

  /** Without its quotes. Names are put in order as they read, so none may have escapes. */
  #name(): string | null {
    const start = this.#position + 1;
    for (let at = start; ; at++) {
      const code = this.#text.charCodeAt(at);
      if (!(code >= 0x20) || code === BACKSLASH) return null;
      if (code === QUOTE) {
        this.#position = at + 1;
        return this.#text.slice(start, at);
      }
    }
  }

  #number(): string | null {
    const start = this.#position;
    const negative = this.#text.charCodeAt(start) === 0x2d;
    if (negative) this.#position++;
    const first = this.#position;
    const digits = this.#digits();
    // A leading zero belongs to zero alone and to fractions, and minus zero to neither.
    const zero = this.#text.charCodeAt(first) === 0x30;
    if (digits === 0 || digits > exactDigitsMax || (zero && digits > 1)) return null;
    const code = this.#text.charCodeAt(this.#position);
    if (code === 0x2e) return this.#fraction(start);
    if (code === 0x65 || code === 0x45 || (zero && negative)) return null;
    return this.#text.slice(start, this.#position);
  }

  #fraction(start: number): string | null {
    this.#position++;
    if (this.#digits() === 0) return null;
    const code = this.#text.charCodeAt(this.#position);
    return code === 0x65 || code === 0x45 ? null : canonicalNumber(this.#text.slice(start, this.#position));
  }

  #digits(): number {
    const start = this.#position;
    while (isDigit(this.#text.charCodeAt(this.#position))) this.#position++;
    return this.#position - start;
  }

  #literal(literal: string): string | null {
    if (!this.#text.startsWith(literal, this.#position)) return null;
    this.#position += literal.length;
    return literal;
  }
}

/** One of `"` `\\` `b` `f` `n` `r` `t`: the canonical form escapes these characters in the same way. */
function isNeededEscape(code: number): boolean {
  return (
    code === QUOTE ||
    code === BACKSLASH ||
    code === 0x62 ||
    code === 0x66 ||
    code === 0x6e ||
    code === 0x72 ||
    code === 0x74
  );
}

/** Puts a member in its place among the others. False: there is one of that name, or there are too many. */
function insert(names: string[], values: string[], name: string, value: string): boolean {
  let at = names.length;
  if (at === membersMax) return false;
  while (at > 0 && name < (names[at - 1] ?? "")) {
    names[at] = names[at - 1] ?? "";
    values[at] = values[at - 1] ?? "";
    at--;
  }
  names[at] = name;
  values[at] = value;
  return at === 0 || names[at - 1] !== name;
}

function joined(names: readonly string[], values: readonly string[]): string {
  let members = "{";
  for (let index = 0; index < names.length; index++) {
    members += `${index === 0 ? "" : ","}"${names[index]}":${values[index]}`;
  }
  return `${members}}`;
}
