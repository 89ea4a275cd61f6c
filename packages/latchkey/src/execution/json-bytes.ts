/** Values as they are stored: JSON in UTF-8; `undefined`, which has no JSON, is no bytes. */
import { plainText } from "../plain-text.ts";

/** @throws {TypeError} when the value has no JSON form (a function, a bigint, a cycle). */
export function encodeJson(what: string, value: unknown): Uint8Array {
  return Buffer.from(value === undefined ? "" : jsonOf(what, value), "utf8");
}

function jsonOf(what: string, value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new TypeError(`${what} has no JSON form: ${plainText(String(cause))}`, { cause });
  }
  if (text === undefined) throw new TypeError(`${what} has no JSON form`);
  return text;
}

/** @throws {SyntaxError} when the bytes are not JSON. */
export function decodeJson(bytes: Uint8Array): unknown {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  return text === "" ? undefined : JSON.parse(text);
}
