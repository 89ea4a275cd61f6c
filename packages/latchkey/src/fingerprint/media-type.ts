import { isTokenCharacter } from "./characters.ts";
import { compareCodeUnits } from "./code-units.ts";

/** A Content-Type value in a form in which equal media types are equal. */
export interface MediaType {
  /** `type/subtype` in lower case; null if the value breaks the grammar of RFC 9110, section 8.3.1. */
  readonly essence: string | null;
  /** Whether the body is JSON text in UTF-8: `application/json` or `+json`, with no charset or `utf-8`. */
  readonly isJson: boolean;
  /**
   * `type/subtype;name=value…`, parameters sorted by name, repeated ones in their order. Values are unquoted, each
   * written as a JSON string; that of charset is in lower case. For JSON the charset `utf-8` is left out, since it
   * makes no difference. A value that breaks the grammar stays as it was sent.
   */
  readonly normalized: string;
  /** Null if the type is not multipart or names no usable boundary. */
  readonly multipart: MultipartType | null;
}

export interface MultipartType {
  readonly boundary: string;
  /** As `normalized`. */
  readonly withoutBoundary: string;
}

type Parameter = readonly [name: string, value: string];

export function parseMediaType(raw: string): MediaType {
  if (raw !== latest.raw) latest = { raw, parsed: parse(raw) };
  return latest.parsed;
}

/** RFC 2046 allows 70. Some clients send longer ones. */
const boundaryMaxLength = 200;

function normalize(essence: string, parameters: readonly Parameter[]): string {
  const sorted = parameters.toSorted(([left], [right]) => compareCodeUnits(left, right));
  return [essence, ...sorted.map(([name, value]) => `${name}=${JSON.stringify(value)}`)].join(";");
}

/** The last parsed value, because nearly all requests have the same one and each request needs it several times. */
let latest = {
  raw: "",
  parsed: { essence: null, isJson: false, normalized: "", multipart: null } as MediaType,
};

function parse(raw: string): MediaType {
  const parsed = new MediaTypeScanner(raw).scan();
  if (parsed === null) return { essence: null, isJson: false, normalized: raw, multipart: null };
  const jsonEssence = parsed.essence === "application/json" || parsed.essence.endsWith("+json");
  const kept = jsonEssence
    ? parsed.parameters.filter((parameter) => !isUtf8Charset(parameter))
    : parsed.parameters;
  const otherCharset = kept.some(([name]) => name === "charset");
  return {
    essence: parsed.essence,
    isJson: jsonEssence && !otherCharset,
    normalized: normalize(parsed.essence, kept),
    multipart: parsed.essence.startsWith("multipart/")
      ? multipartType(parsed.essence, parsed.parameters)
      : null,
  };
}

function multipartType(essence: string, parameters: readonly Parameter[]): MultipartType | null {
  const boundaries = parameters.filter(([name]) => name === "boundary");
  const boundary = boundaries[0]?.[1] ?? "";
  // Of two boundaries, different parsers use different ones.
  if (boundaries.length !== 1 || boundary === "" || boundary.length > boundaryMaxLength) return null;
  const others = parameters.filter(([name]) => name !== "boundary");
  return { boundary, withoutBoundary: normalize(essence, others) };
}

function isUtf8Charset([name, value]: Parameter): boolean {
  return name === "charset" && (value === "utf-8" || value === "utf8");
}

class MediaTypeScanner {
  readonly #raw: string;
  #position = 0;

  constructor(raw: string) {
    this.#raw = raw;
  }

  scan(): { essence: string; parameters: Parameter[] } | null {
    this.#skipWhitespace();
    const type = this.#token();
    if (type === "" || this.#raw.charAt(this.#position++) !== "/") return null;
    const subtype = this.#token();
    if (subtype === "") return null;
    const parameters: Parameter[] = [];
    this.#skipWhitespace();
    while (this.#raw.charAt(this.#position) === ";") {
      this.#position++;
      this.#skipWhitespace();
      const parameter = this.#parameter();
      if (parameter === null) return null;
      if (parameter !== "empty") parameters.push(parameter);
      this.#skipWhitespace();
    }
    if (this.#position < this.#raw.length) return null;
    return { essence: `${type}/${subtype}`.toLowerCase(), parameters };
  }

  #skipWhitespace(): void {
    while (this.#raw.charAt(this.#position) === " " || this.#raw.charAt(this.#position) === "\t")
      this.#position++;
  }

  #token(): string {
    const start = this.#position;
    while (isTokenCharacter(this.#raw.charCodeAt(this.#position))) this.#position++;
    return this.#raw.slice(start, this.#position);
  }

  /** RFC 9110 allows `;` with nothing after it. */
  #parameter(): Parameter | "empty" | null {
    const name = this.#token().toLowerCase();
    const next = this.#raw.charAt(this.#position);
    if (name === "") return next === ";" || next === "" ? "empty" : null;
    if (next !== "=") return null;
    this.#position++;
    const quoted = this.#raw.charAt(this.#position) === '"';
    const value = quoted ? this.#quotedString() : this.#token();
    if (value === null || (!quoted && value === "")) return null;
    return [name, name === "charset" ? value.toLowerCase() : value];
  }

  #quotedString(): string | null {
    const characters: string[] = [];
    for (this.#position++; this.#position < this.#raw.length; this.#position++) {
      const character = this.#raw.charAt(this.#position);
      if (character === '"') {
        this.#position++;
        return characters.join("");
      }
      if (character === "\\") this.#position++;
      characters.push(this.#raw.charAt(this.#position));
    }
    return null;
  }
}
