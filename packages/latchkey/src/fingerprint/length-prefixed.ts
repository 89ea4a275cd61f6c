/** Text, bytes, absence, or a list of these. */
export type Field = string | Uint8Array | EncodedFields | null | readonly Field[];

/** Fields in a row that were encoded before. */
export interface EncodedFields {
  readonly encoded: Uint8Array;
}

const TAG_TEXT = 0x74; // "t": UTF-8
const TAG_UTF16 = 0x75; // "u": UTF-16 code units, little-endian
const TAG_BYTES = 0x62; // "b"
const TAG_NULL = 0x6e; // "n"
const TAG_LIST = 0x6c; // "l": the length is the number of fields that follow

/** Larger byte fields are not copied. */
const copiedBytesMax = 16_384;
const headerBytes = 5;
/** Up to this length a loop is faster than a call into Node's native code. */
const loopedTextMax = 48;

/**
 * Encodes fields so that different fields never give the same bytes: each is one tag byte, its length as a
 * big-endian 32-bit number, then its content. Returned as chunks to be hashed one after the other, few of them, since
 * hashing costs more for each chunk than for its bytes; a large body is a chunk of its own and is not copied.
 *
 * Text with lone surrogates, for which UTF-8 has no form, is encoded as UTF-16 under its own tag; replacing them
 * would make two different texts equal.
 */
export function encodeFields(fields: readonly Field[]): Uint8Array[] {
  const writer = new FieldWriter(sizeOfAll(fields));
  for (const field of fields) writer.field(field);
  return writer.end();
}

/** How many bytes the fields take, at most, without the byte fields that are not copied. */
function sizeOfAll(fields: readonly Field[]): number {
  let size = 0;
  for (const field of fields) size += headerBytes + sizeOf(field);
  return size;
}

function sizeOf(field: Field): number {
  if (field === null) return 0;
  // A UTF-16 code unit takes 3 bytes of UTF-8 at most.
  if (typeof field === "string") return field.length * 3;
  if (field instanceof Uint8Array) return field.length > copiedBytesMax ? 0 : field.length;
  if (isList(field)) return sizeOfAll(field);
  return field.encoded.length;
}

function isList(field: Field): field is readonly Field[] {
  return Array.isArray(field);
}

class FieldWriter {
  readonly #buffer: Buffer;
  readonly #chunks: Uint8Array[] = [];
  /** Where the chunk that is being written begins, and where it goes on. */
  #from = 0;
  #at = 0;

  constructor(size: number) {
    this.#buffer = Buffer.allocUnsafe(size);
  }

  field(field: Field): void {
    if (field === null) this.#header(TAG_NULL, 0);
    else if (typeof field === "string") this.#text(field);
    else if (field instanceof Uint8Array) this.#bytes(field);
    else if (isList(field)) {
      this.#header(TAG_LIST, field.length);
      for (const inner of field) this.field(inner);
    } else this.#copy(field.encoded);
  }

  end(): Uint8Array[] {
    if (this.#at > this.#from) this.#chunks.push(this.#buffer.subarray(this.#from, this.#at));
    this.#from = this.#at;
    return this.#chunks;
  }

  #header(tag: number, length: number): void {
    const at = this.#at;
    this.#buffer[at] = tag;
    this.#buffer[at + 1] = length >>> 24;
    this.#buffer[at + 2] = length >>> 16;
    this.#buffer[at + 3] = length >>> 8;
    this.#buffer[at + 4] = length;
    this.#at += headerBytes;
  }

  #text(text: string): void {
    const start = this.#at + headerBytes;
    if (text.length <= loopedTextMax && this.#writeAscii(text, start)) {
      this.#passed(TAG_TEXT, text.length);
      return;
    }
    const utf8 = text.isWellFormed();
    const length = this.#buffer.write(text, start, utf8 ? "utf8" : "utf16le");
    this.#passed(utf8 ? TAG_TEXT : TAG_UTF16, length);
  }

  /** Puts its header before content that is there already. */
  #passed(tag: number, length: number): void {
    this.#header(tag, length);
    this.#at += length;
  }

  /** False where the text is not ASCII, which is the same in UTF-8. */
  #writeAscii(text: string, start: number): boolean {
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) return false;
      this.#buffer[start + index] = code;
    }
    return true;
  }

  #bytes(bytes: Uint8Array): void {
    this.#header(TAG_BYTES, bytes.length);
    if (bytes.length > copiedBytesMax) {
      this.end().push(bytes);
    } else {
      this.#copy(bytes);
    }
  }

  #copy(bytes: Uint8Array): void {
    this.#buffer.set(bytes, this.#at);
    this.#at += bytes.length;
  }
}
