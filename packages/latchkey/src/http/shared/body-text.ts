import { isUtf8 } from "node:buffer";

/** Longer bodies are not copied to text. */
const textMaxBytes = 16_384;

/** The body as text, if it is UTF-8: Node sends text in one write with the head, but bytes in a second one. */
export function bodyText({ buffer, byteOffset, byteLength }: Uint8Array): string | null {
  if (byteLength > textMaxBytes) return null;
  const bytes = Buffer.from(buffer, byteOffset, byteLength);
  return isUtf8(bytes) ? bytes.toString("utf8") : null;
}
