/** Multipart bodies without their boundary, which clients draw anew for every attempt. */
import type { Field } from "./length-prefixed.ts";

const lineEnd = "\r\n";

/**
 * The bytes between the boundaries: the header lines and the content of each part, as they were sent, and the bytes before
 * the first and after the last part. Null where the body does not follow RFC 2046 to the letter, because two parsers could
 * then find different parts in it.
 */
export function multipartFields(bytes: Uint8Array, boundary: string): readonly Field[] | null {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const delimiter = Buffer.from(`--${boundary}`, "latin1");
  const inner = Buffer.from(`${lineEnd}--${boundary}`, "latin1");
  const first = body.indexOf(inner);
  let at = body.subarray(0, delimiter.length).equals(delimiter) ? 0 : first < 0 ? -1 : first + lineEnd.length;
  if (at < 0) return null;
  const fields: Field[] = [body.subarray(0, at)];
  for (;;) {
    const from = afterPadding(body, at + delimiter.length);
    if (startsWith(body, from, "--")) return [...fields, body.subarray(from + 2)];
    if (!startsWith(body, from, lineEnd)) return null;
    const next = body.indexOf(inner, from + lineEnd.length);
    const part = next < 0 ? null : partOf(body.subarray(from + lineEnd.length, next));
    if (part === null) return null;
    fields.push(part);
    at = next + lineEnd.length;
  }
}

/** Senders may put spaces and tabs between a boundary and the end of its line. */
function afterPadding(body: Buffer, start: number): number {
  let at = start;
  while (body[at] === 0x20 || body[at] === 0x09) at++;
  return at;
}

function startsWith(body: Buffer, at: number, text: string): boolean {
  return body.toString("latin1", at, at + text.length) === text;
}

function partOf(part: Buffer): Field | null {
  if (startsWith(part, 0, lineEnd)) return [null, part.subarray(lineEnd.length)];
  const end = part.indexOf(lineEnd + lineEnd);
  return end < 0 ? null : [part.subarray(0, end), part.subarray(end + 2 * lineEnd.length)];
}
