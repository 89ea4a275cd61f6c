/** What is stored of an intent, and all decisions about it. Pure. */
import type { ClientErrorCode } from "./errors.ts";
import { hex } from "./hex.ts";

/** One intent: one thing the user wants done. Can be stored by the structured clone of IndexedDB. */
export interface IntentRecord {
  /** Version of this format. */
  readonly version: 1;
  readonly key: string;
  /** Distinguishes another request under the same name. Not a cryptographic digest. */
  readonly digest: string;
  readonly method: string;
  readonly url: string;
  /** `Content-Type`. Other headers are not stored, because they include credentials. */
  readonly type: string | null;
  /** Null: there is none, it is not stored, or the intent is done. */
  readonly body: Uint8Array<ArrayBuffer> | null;
  /** Whether `resume` can send it. */
  readonly isKept: boolean;
  /** When the key was created, in milliseconds since the Unix epoch by this machine. */
  readonly startedAt: number;
  /** When it succeeded; null: its outcome is not known. */
  readonly doneAt: number | null;
  /** Which tab is sending it, on platforms without Web Locks. */
  readonly lease?: { readonly owner: string; readonly until: number };
}

export type Admission =
  | { readonly ok: true; readonly record: IntentRecord }
  | { readonly ok: false; readonly code: ClientErrorCode; readonly key: string };

/**
 * Decides what a call under a name sends.
 *
 * @param keyLifetimeMs how long servers are certain to remember a key
 */
export function admit(
  stored: IntentRecord | undefined,
  draft: IntentRecord,
  keyLifetimeMs: number,
): Admission {
  if (stored === undefined) return { ok: true, record: draft };
  const isSame = stored.digest === draft.digest;
  if (isSame && !isTooOld(stored, draft.startedAt, keyLifetimeMs)) return { ok: true, record: stored };
  const code = stored.doneAt !== null ? "intent-done" : isSame ? "intent-too-old" : "request-changed";
  return { ok: false, code, key: stored.key };
}

export function isTooOld({ startedAt }: IntentRecord, now: number, keyLifetimeMs: number): boolean {
  return now - startedAt >= keyLifetimeMs;
}

/**
 * The part of an intent that is stored after its answer: its request is no longer needed, its key still recognises a
 * repetition.
 */
export function finished(record: IntentRecord, now: number): IntentRecord {
  return { ...record, type: null, body: null, isKept: false, doneAt: now };
}

/**
 * 64 bits, enough to distinguish a user's own requests; if two are confused, the server's fingerprint still refuses the
 * second. `crypto.subtle` is not used: pages without TLS do not have it.
 */
export function digestOf(target: string, body: Uint8Array): string {
  let high = 0x9e3779b9;
  let low = body.length;
  const add = (unit: number) => {
    high = Math.imul(high ^ unit, 0x01000193);
    low = Math.imul(((low << 5) | (low >>> 27)) ^ unit, 0xc2b2ae35);
  };
  for (let at = 0; at < target.length; at++) add(target.charCodeAt(at));
  for (const byte of body) add(byte);
  return hex(high >>> 0, 8) + hex(low >>> 0, 8);
}
