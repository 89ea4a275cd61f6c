import { isPrintable } from "../../packages/latchkey/src/fingerprint/characters.ts";

/**
 * Writes a key as a String of RFC 9651, the form that `parseKey` reads back under `compat` and `strict`: `a"b` becomes `"a\"b"`.
 *
 * @throws TypeError if the key has a character outside printable ASCII (0x20 to 0x7E).
 */
export function formatKey(key: string): string {
  const parts: string[] = ['"'];
  let start = 0;
  for (let index = 0; index < key.length; index++) {
    const code = key.charCodeAt(index);
    if (!isPrintable(code)) throw new TypeError("An idempotency key may contain only printable ASCII");
    if (code === 0x22 || code === 0x5c) {
      parts.push(key.slice(start, index), "\\");
      start = index;
    }
  }
  parts.push(key.slice(start), '"');
  return parts.join("");
}
