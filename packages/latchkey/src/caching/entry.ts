/** The encoding of a finished record in the cache. Its seal proves that the copy is intact and belongs to the key. */
import { createHash, createHmac } from "node:crypto";
import type { FinishedRecord, RecordKey } from "../engine/record.ts";
import { encodeFields } from "../fingerprint/length-prefixed.ts";

/** A copy of a finished record. */
export interface Copy {
  readonly record: FinishedRecord;
  /** The store's time at which the copy expires. */
  readonly untilMs: number;
}

/** Version of the layout below. Other versions are ignored. */
const version = 1;
const sealBytes = 32;
const headerAt = 1 + sealBytes + 4;

/** The name of (tenant, scope, key) in the cache: 43 characters that do not reveal them. */
export function digestOf({ tenant, scope, key }: RecordKey): string {
  const hash = createHash("sha256");
  for (const chunk of encodeFields([tenant, scope, key])) hash.update(chunk);
  return hash.digest("base64url");
}

/** Layout: the version, a seal over the key and the rest, the header's length, the header as JSON, and the answer. */
export function encodeCopy({ record, untilMs }: Copy, secret: string | null): Buffer {
  const { answer, fingerprint, ...rest } = record;
  const digest = Buffer.from(fingerprint.digest).toString("base64");
  const isThere = answer !== null;
  const header = Buffer.from(
    JSON.stringify({ ...rest, fingerprint: { ...fingerprint, digest }, untilMs, isThere }),
  );
  const bytes = Buffer.alloc(headerAt + header.length + (answer?.length ?? 0));
  bytes[0] = version;
  bytes.writeUInt32BE(header.length, 1 + sealBytes);
  bytes.set(header, headerAt);
  if (answer !== null) bytes.set(answer, headerAt + header.length);
  bytes.set(sealOf(bytes, record, secret), 1);
  return bytes;
}

/** Null: the copy is damaged, of another key or version, or sealed with another secret. */
export function decodeCopy(bytes: Buffer, key: RecordKey, secret: string | null): Copy | null {
  if (bytes.length < headerAt || bytes[0] !== version) return null;
  if (!bytes.subarray(1, 1 + sealBytes).equals(sealOf(bytes, key, secret))) return null;
  const answerAt = headerAt + bytes.readUInt32BE(1 + sealBytes);
  try {
    const header = JSON.parse(bytes.toString("utf8", headerAt, answerAt));
    const { untilMs, isThere, fingerprint, ...rest } = header;
    const digest = new Uint8Array(Buffer.from(fingerprint.digest, "base64"));
    const answer = isThere ? new Uint8Array(bytes.subarray(answerAt)) : null;
    return { record: { ...rest, fingerprint: { ...fingerprint, digest }, answer }, untilMs };
  } catch {
    // Forged: a plain checksum does not prevent that.
    return null;
  }
}

function sealOf(bytes: Buffer, key: RecordKey, secret: string | null): Buffer {
  const hash = secret === null ? createHash("sha256") : createHmac("sha256", secret);
  return hash
    .update(digestOf(key))
    .update(bytes.subarray(1 + sealBytes))
    .digest();
}
