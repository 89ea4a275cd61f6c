/** What is stored of an intent, and every decision about it. Pure. */
import type { ClientErrorCode } from "./errors.ts";

/** One intent: something its user wants once. Fit for the structured clone of IndexedDB. */
export interface IntentRecord {
  /** Of this form. */
  readonly version: 1;
  readonly key: string;
  /** Tells another request under the same name. Not a cryptographic digest. */
  readonly digest: string;
  readonly method: string;
  readonly url: string;
  /** `Content-Type`. Other headers are not kept: credentials are among them. */
  readonly type: string | null;
  /** Null: none, not kept, or done. */
  readonly body: Uint8Array<ArrayBuffer> | null;
  /** Whether it can be sent again from here. */
  readonly isKept: boolean;
  /** When the key was made, in milliseconds since the Unix epoch by this machine. */
  readonly startedAt: number;
  /** When it succeeded; null: its outcome is open. */
  readonly doneAt: number | null;
  /** Who is sending it, where the platform has no Web Locks. */
  readonly lease?: { readonly owner: string; readonly until: number };
}

export type Admission =
  | { readonly ok: true; readonly record: IntentRecord }
  | { readonly ok: false; readonly code: ClientErrorCode; readonly key: string };

/**
 * What a call under a name that may be known is to send.
 *
 * @param keyLifetimeMs how long servers are sure to remember a key
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

/** What is left of an intent after an answer: its request is not needed any more, its key still recognises a repetition. */
export function finished(record: IntentRecord, now: number): IntentRecord {
  return { ...record, type: null, body: null, isKept: false, doneAt: now };
}

/**
 * 64 bits, enough to tell a user's own requests apart; where two are taken for one, the server's fingerprint still refuses
 * the second. `crypto.subtle` is not used: pages without TLS do not have it.
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
  return [high, low].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}
