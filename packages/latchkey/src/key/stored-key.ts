import type { RecordKey } from "../engine/record.ts";
import { hashKeyForStorage } from "./hash-key.ts";

/** What `hashKeyForStorage` needs so that keys which can be guessed cannot be found by guessing: 128 bits in hexadecimal. */
const secretMinLength = 32;

/**
 * How the keys that clients send are kept: with a secret as HMAC-SHA-256, without as they are.
 *
 * @throws {TypeError} when the secret is shorter than 32 characters or bytes.
 */
export function storedKey(secret: string | Uint8Array | undefined): (sent: RecordKey) => RecordKey {
  if (secret === undefined) return (sent) => sent;
  if (secret.length < secretMinLength) {
    throw new TypeError(`keySecret must have at least ${secretMinLength} characters (or bytes)`);
  }
  return ({ tenant, scope, key }) => ({
    tenant,
    scope,
    key: hashKeyForStorage(secret, tenant, scope, key),
  });
}

/** What the key of a record begins with whose request needed none and sent none: a no-break space, which no client's can. */
export const noKey = "\u00a0";

/** The client's key, of one that is kept as it was sent. */
export function clientKeyOf({ key }: RecordKey): string | null {
  return key.startsWith(noKey) ? null : key;
}
