const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Null if invalid. A byte order mark is kept, so that it is refused as a character outside the grammar. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return utf8.decode(bytes);
  } catch {
    return null;
  }
}
