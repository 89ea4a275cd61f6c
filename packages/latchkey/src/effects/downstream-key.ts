/** The key under which the other service knows an outbound call. */
import { createHash } from "node:crypto";
import { encodeFields } from "../fingerprint/length-prefixed.ts";

export interface DownstreamCall {
  /** The record's id: a new life of a forgotten key gets new downstream keys. */
  readonly recordId: string;
  readonly step: string;
  readonly effect: string;
  /** Position among the effects of one step; 0 for a call. */
  readonly index: number;
  /** Raised when a call was closed at the other service and may be repeated. */
  readonly generation: number;
}

/** 128 bits: the calls of one record must differ, nothing more. */
const digestBytes = 16;
const idLength = 16;
const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/u;

/**
 * 47 characters of `A-Z a-z 0-9 - _`: `lk_`, half of a SHA-256 and the record's id, both in base64url. It depends only on its
 * arguments, so every attempt, owner and version of Latchkey sends the same key. It contains the id so that a webhook that
 * names the call also names the record, without an index over all calls (decision 030).
 */
export function downstreamKey({ recordId, step, effect, index, generation }: DownstreamCall): string {
  const hash = createHash("sha256");
  const fields = ["latchkey-downstream-2", recordId, step, effect, String(index), String(generation)];
  for (const chunk of encodeFields(fields)) hash.update(chunk);
  const digest = hash.digest().subarray(0, digestBytes);
  return `lk_${digest.toString("base64url")}${idBytes(recordId).toString("base64url")}`;
}

function idBytes(recordId: string): Buffer {
  if (uuid.test(recordId)) return Buffer.from(recordId.replaceAll("-", ""), "hex");
  // Only a test's `Random` port draws other ids. Their keys are as stable, but do not name a record.
  return createHash("sha256").update(recordId).digest().subarray(0, idLength);
}

/** The id of the record that a downstream key was made for. Null if the key is not one of Latchkey's. */
export function recordIdOf(key: string): string | null {
  const encoded = /^lk_[\w-]{22}([\w-]{22})$/u.exec(key)?.[1];
  if (encoded === undefined) return null;
  const hex = Buffer.from(encoded, "base64url").toString("hex");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/u, "$1-$2-$3-$4-$5");
}
