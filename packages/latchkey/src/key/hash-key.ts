import { createHmac, hash } from "node:crypto";
import type { RecordKey } from "../engine/record.ts";
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
 * client could choose keys that block each other. Not derivable from the result of `hashKey`.
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
 * The text to store in place of the key when keys must not be stored in clear: 64 hexadecimal digits, so a valid
 * key itself. Not derivable from the result of `hashKey`.
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
  const chunks = encodeFields([purpose, ...fields]);
  const [only] = chunks;
  const pads = typeof secret === "string" ? padsOf(secret) : null;
  if (pads !== null && only !== undefined && chunks.length === 1) return hmacOf(pads, only);
  const hmac = createHmac("sha256", secret);
  for (const chunk of chunks) hmac.update(chunk);
  return hmac.digest();
}

const blockBytes = 64;
const innerPad = 0x36;
const outerPad = 0x5c;

interface Pads {
  /** The block of the inner hash, and room for the content that is hashed after it. */
  readonly inner: Buffer;
  /** The block of the outer hash, and room for the inner one. */
  readonly outer: Buffer;
}

/** Longer contents are hashed from a buffer of their own. */
const roomBytes = 1_024;
const hashBytes = 32;

/** HMAC (RFC 2104) as two hashes in one call each: a third of the time, and of the garbage, of an Hmac object. */
function hmacOf({ inner, outer }: Pads, content: Uint8Array): Buffer {
  const length = blockBytes + content.length;
  const whole = length > inner.length ? Buffer.concat([inner.subarray(0, blockBytes), content]) : inner;
  if (whole === inner) inner.set(content, blockBytes);
  // As text of one byte a character, because that is faster than asking for a buffer.
  outer.write(hash("sha256", whole.subarray(0, length), "binary"), blockBytes, "latin1");
  return Buffer.from(hash("sha256", outer, "binary"), "latin1");
}

/** A process has one secret for each purpose. */
const padsMax = 16;
const padsBySecret = new Map<string, Pads>();

/** The secret, padded to a block, for both hashes; null if it is longer than a block. */
function padsOf(secret: string): Pads | null {
  const known = padsBySecret.get(secret);
  if (known !== undefined) return known;
  const bytes = Buffer.from(secret);
  if (bytes.length > blockBytes) return null;
  const block = Buffer.concat([bytes, Buffer.alloc(blockBytes - bytes.length)]);
  const over = (pad: number, room: number) =>
    Buffer.concat([block.map((byte) => byte ^ pad), Buffer.alloc(room)]);
  const pads: Pads = { inner: over(innerPad, roomBytes), outer: over(outerPad, hashBytes) };
  if (padsBySecret.size < padsMax) padsBySecret.set(secret, pads);
  return pads;
}

/** The length that keeps an attacker from finding weak keys by guessing: 128 bits in hexadecimal. */
const secretMinLength = 32;

/**
 * How the keys that clients send are stored: with a secret as HMAC-SHA-256, without one as they are.
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

/** The first character of the key of a record whose request needed no key and sent none: a no-break space, which no client's key can have. */
export const noKey = "\u00a0";

/** The client's key, if it is stored as it was sent. */
export function clientKeyOfStored({ key }: RecordKey): string | null {
  return key.startsWith(noKey) ? null : key;
}
