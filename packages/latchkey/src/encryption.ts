/**
 * Encryption of what is stored: AES-256-GCM, bound to the place it was stored in.
 *
 * A stored value is: 0xFE "LK", the format version (1), the length of the key's id, the id, a 96-bit nonce, the
 * ciphertext, a 128-bit tag. No plain value begins with 0xFE: plain values are UTF-8.
 *
 * Each record has a key of its own, derived from the named one. A nonce can therefore collide only with the few others of
 * its record, so the number of records sets no limit to how long a key may be used.
 */

import { createCipheriv, createDecipheriv, createHmac, createSecretKey, KeyObject } from "node:crypto";
import type { Codec, CodecContext } from "./codec.ts";
import { LatchkeyError } from "./errors.ts";
import { encodeFields } from "./fingerprint/length-prefixed.ts";
import { checkOptions, type OptionNames } from "./known-options.ts";
import { nonceBytes } from "./ports.ts";

export interface EncryptionOptions {
  /**
   * Keys by their ids, each of 32 random bytes. All of them decode. An id has 1 to 64 visible ASCII characters, is stored
   * with every value, and must never get other bytes.
   */
  readonly keys: Readonly<Record<string, Uint8Array | KeyObject>>;
  /** Id of the key that new values are encrypted under. */
  readonly current: string;
  /**
   * What happens with stored values that are not encrypted. `refuse`: decoding them fails. `read`: they are decoded, and new
   * values are encrypted. `write`: they are decoded, and new values are not encrypted yet; for as long as some processes
   * have no codec. Under `read` and `write`, anyone with write access to the tables can forge answers. Default `refuse`.
   */
  readonly plaintext?: "refuse" | "read" | "write";
}

const encryptionOptions = {
  keys: true,
  current: true,
  plaintext: true,
} as const satisfies OptionNames<EncryptionOptions>;
const magic = Buffer.from([0xfe, 0x4c, 0x4b]);
const formatVersion = 1;
const headBytes = magic.length + 2;
const nonceLength = 12;
const tagLength = 16;
const keyLength = 32;
const algorithm = "aes-256-gcm";

/**
 * Makes the codec that encrypts answers, inputs, results and effects. A value that it cannot decode is an error for the
 * caller and never makes anything run again.
 *
 * Decoding throws {LatchkeyError} `encryption-key-unknown`, `decryption-failed` or `not-encrypted`.
 *
 * @throws {TypeError} when a key is not 32 bytes long, a key id is invalid, or `current` is not the id of one of the keys.
 */
export function encryptionCodec(options: EncryptionOptions): Codec {
  checkOptions("encryptionCodec", options, encryptionOptions);
  const keys = checkedKeys(options.keys);
  const { current, plaintext = "refuse" } = options;
  const key = keys.get(current);
  if (key === undefined)
    throw new TypeError(`current must be the id of one of the keys (got ${quoted(current)})`);
  if (!["refuse", "read", "write"].includes(plaintext)) {
    throw new TypeError(`plaintext must be refuse, read or write (got ${quoted(plaintext)})`);
  }
  return {
    encode: (plain, context) => (plaintext === "write" ? plain : seal(key, current, plain, context)),
    decode(stored, context) {
      if (isSealed(stored)) return open(keys, stored, context);
      if (plaintext === "refuse") throw new LatchkeyError("not-encrypted");
      return stored;
    },
  };
}

function checkedKeys(given: EncryptionOptions["keys"]): ReadonlyMap<string, KeyObject> {
  if (typeof given !== "object" || given === null) {
    throw new TypeError("keys must be an object of keys by their ids");
  }
  return new Map(Object.entries(given).map(([id, key]) => [checkedId(id), checkedKey(id, key)]));
}

function checkedId(id: string): string {
  if (/^[\x21-\x7e]{1,64}$/u.test(id)) return id;
  throw new TypeError(`A key's id has 1 to 64 visible ASCII characters (got ${quoted(id)})`);
}

function checkedKey(id: string, key: unknown): KeyObject {
  if (key instanceof KeyObject) {
    if (key.type === "secret" && key.symmetricKeySize === keyLength) return key;
  } else if (key instanceof Uint8Array && key.byteLength === keyLength) {
    return createSecretKey(key);
  }
  throw new TypeError(`Key ${id} must be ${keyLength} bytes, as a Uint8Array or a secret KeyObject`);
}

function seal(key: KeyObject, id: string, plain: Uint8Array, context: CodecContext): Uint8Array {
  const nonce = nonceBytes(nonceLength);
  const cipher = createCipheriv(algorithm, recordKey(key, context), nonce, { authTagLength: tagLength });
  cipher.setAAD(place(id, context));
  const head = Buffer.from([...magic, formatVersion, id.length]);
  return Buffer.concat([
    head,
    Buffer.from(id, "latin1"),
    nonce,
    cipher.update(plain),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
}

function isSealed(stored: Uint8Array): boolean {
  return magic.equals(stored.subarray(0, magic.length));
}

/** @throws {LatchkeyError} */
function open(keys: ReadonlyMap<string, KeyObject>, stored: Uint8Array, context: CodecContext): Uint8Array {
  const { id, nonce, ciphertext, tag } = parse(stored);
  const key = keys.get(id);
  if (key === undefined) {
    const message = `A stored value is encrypted under the key ${quoted(id)}, which this process does not have.`;
    throw new LatchkeyError("encryption-key-unknown", { message });
  }
  try {
    const cipher = createDecipheriv(algorithm, recordKey(key, context), nonce, { authTagLength: tagLength });
    cipher.setAAD(place(id, context)).setAuthTag(tag);
    return Buffer.concat([cipher.update(ciphertext), cipher.final()]);
  } catch (cause) {
    throw new LatchkeyError("decryption-failed", { cause });
  }
}

function parse(stored: Uint8Array) {
  const version = stored[magic.length];
  const idEnd = headBytes + (stored[headBytes - 1] ?? 0);
  const nonceEnd = idEnd + nonceLength;
  const tagStart = stored.byteLength - tagLength;
  if (version !== formatVersion || tagStart < nonceEnd) {
    const message = `A stored value is truncated, or its format (version ${version}) is unknown.`;
    throw new LatchkeyError("decryption-failed", { message });
  }
  return {
    id: Buffer.from(stored.subarray(headBytes, idEnd)).toString("latin1"),
    nonce: stored.subarray(idEnd, nonceEnd),
    ciphertext: stored.subarray(nonceEnd, tagStart),
    tag: stored.subarray(tagStart),
  };
}

function recordKey(key: KeyObject, { recordId }: CodecContext): Buffer {
  const hmac = createHmac("sha256", key);
  for (const chunk of encodeFields(["latchkey record key 1", recordId])) hmac.update(chunk);
  return hmac.digest();
}

/** What is authenticated beside the value: where it belongs. */
function place(id: string, { tenant, scope, key, recordId, fingerprint, part }: CodecContext): Buffer {
  // Part of every tag: with another label, nothing that is stored would decode.
  const label = `latchkey piece ${formatVersion}`;
  return Buffer.concat(encodeFields([label, id, tenant, scope, key, recordId, fingerprint, part]));
}

function quoted(value: unknown): string {
  return JSON.stringify(value) ?? typeof value;
}
