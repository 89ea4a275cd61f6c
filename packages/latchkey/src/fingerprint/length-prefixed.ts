import { isWellFormed } from "./code-units.ts";

/** Text, bytes, absence, or a list of these. */
export type Field = string | Uint8Array | null | readonly Field[];

const TAG_TEXT = 0x74; // "t": UTF-8
const TAG_UTF16 = 0x75; // "u": UTF-16 code units, little-endian
const TAG_BYTES = 0x62; // "b"
const TAG_NULL = 0x6e; // "n"
const TAG_LIST = 0x6c; // "l": the length is the number of fields that follow

const encoder = new TextEncoder();

/**
 * Encodes fields so that different fields never give the same bytes: each is one tag byte, its length as a
 * big-endian 32-bit number, then its content. Returned as chunks to be hashed one after the other, so that a large
 * body is not copied.
 *
 * Text with lone surrogates, for which UTF-8 has no form, is encoded as UTF-16 under its own tag; replacing them
 * would make two different texts equal.
 */
export function encodeFields(fields: readonly Field[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (const field of fields) appendField(field, chunks);
  return chunks;
}

function appendField(field: Field, chunks: Uint8Array[]): void {
  if (field === null) {
    chunks.push(header(TAG_NULL, 0));
  } else if (typeof field === "string") {
    const wellFormed = isWellFormed(field);
    const bytes = wellFormed ? encoder.encode(field) : utf16(field);
    chunks.push(header(wellFormed ? TAG_TEXT : TAG_UTF16, bytes.length), bytes);
  } else if (field instanceof Uint8Array) {
    chunks.push(header(TAG_BYTES, field.length), field);
  } else {
    chunks.push(header(TAG_LIST, field.length));
    for (const inner of field) appendField(inner, chunks);
  }
}

function header(tag: number, length: number): Uint8Array {
  const bytes = new Uint8Array(5);
  bytes[0] = tag;
  new DataView(bytes.buffer).setUint32(1, length);
  return bytes;
}

function utf16(text: string): Uint8Array {
  const view = new DataView(new ArrayBuffer(text.length * 2));
  for (let index = 0; index < text.length; index++) view.setUint16(index * 2, text.charCodeAt(index), true);
  return new Uint8Array(view.buffer);
}
