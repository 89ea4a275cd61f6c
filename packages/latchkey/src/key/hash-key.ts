import { createHmac } from "node:crypto";
import { encodeFields } from "../fingerprint/length-prefixed.ts";

/** Shown where a key must not appear in clear: 12 hexadecimal digits, 48 bits. */
const LOG_HEX_DIGITS = 12;

/**
 * Names a key in logs, traces and messages to operators: the first 12 hexadecimal digits of HMAC-SHA-256 over
 * tenant, scope and key. Each field is length-prefixed, so `a|b`, `c` and `a`, `b|c` differ.
 *
 * @throws TypeError if the secret is empty.
 */
export function hashKey(secret: string | Uint8Array, tenant: string, scope: string, key: string): string {
  return digest("latchkey key log", secret, tenant, scope, key).toString("hex").slice(0, LOG_HEX_DIGITS);
}

/**
 * Number of the Postgres advisory lock of a key: a signed 64-bit integer. Keyed, because with a plain hash a
 * client could choose keys that block each other. Not derivable from what `hashKey` shows.
 *
 * @throws TypeError if the secret is empty.
 */
export function hashKeyForLock(
  secret: string | Uint8Array,
  tenant: string,
  scope: string,
  key: string,
): bigint {
  return digest("latchkey key lock", secret, tenant, scope, key).readBigInt64BE(0);
}

/**
 * What is stored in place of the key when keys must not be at rest in clear: 64 hexadecimal digits, so a valid
 * key itself. Not derivable from what `hashKey` shows.
 *
 * @throws TypeError if the secret is empty.
 */
export function hashKeyForStorage(
  secret: string | Uint8Array,
  tenant: string,
  scope: string,
  key: string,
): string {
  return digest("latchkey key storage", secret, tenant, scope, key).toString("hex");
}

function digest(purpose: string, secret: string | Uint8Array, ...fields: readonly string[]): Buffer {
  if (secret.length === 0) throw new TypeError("the secret for hashing keys must not be empty");
  const hmac = createHmac("sha256", secret);
  for (const chunk of encodeFields([purpose, ...fields])) hmac.update(chunk);
  return hmac.digest();
}
