/**
 * The record: one row of one (tenant, scope, key). A union in which each state carries only its own data.
 * All times are milliseconds since the Unix epoch on the store's clock.
 */

/** Where a record lives. `scope` is the operation's name, `*` under `keyScope: "tenant"`, name and path under `"path"`. */
export interface RecordKey {
  readonly tenant: string;
  readonly scope: string;
  readonly key: string;
}

/** Versioned digest of what a request asks for. */
export interface Fingerprint {
  /** The algorithm; two digests are comparable only within one version. */
  readonly version: number;
  readonly digest: Uint8Array;
}

/** Identifies one attempt. The number alone is not enough: after an asynchronous failover it is issued again. */
export interface Fence {
  /** 1 for the first attempt of a life. */
  readonly attempt: number;
  /** 128 random bits as 32 hexadecimal digits. */
  readonly token: string;
}

/** What follows when a lease ends: the outcome is unknown; go on after the last finished step; or run everything again. */
export type LeaseEnd = "reconcile" | "resume" | "rerun";

interface RecordBase extends RecordKey {
  /** UUIDv7, new for every life of a key; domain rows may refer to it. */
  readonly id: string;
  /** The operation that runs under this key. `scope` is the same only under `keyScope: "operation"`. */
  readonly operation: string;
  readonly fingerprint: Fingerprint;
  readonly principal: string | null;
  readonly fence: Fence;
  readonly createdAt: number;
  /** The span in which the life began, as a W3C traceparent. Absent: none was kept. */
  readonly trace?: string;
}

export interface PendingRecord extends RecordBase {
  readonly state: "pending";
  readonly expiresAt: number;
}

export interface InProgressRecord extends RecordBase {
  readonly state: "in_progress";
  /** Until when the attempt owns the record. */
  readonly leaseEndsAt: number;
  /** After this a dead attempt is not taken over any more but settled as `unknown`. */
  readonly expiresAt: number;
}

export interface FinishedRecord extends RecordBase {
  readonly state: "completed" | "failed";
  readonly finishedAt: number;
  /** When the answer's bytes may go; from then on the record counts as `expired`. */
  readonly expiresAt: number;
  /** When the key is forgotten and may run as new. Never before `expiresAt`. */
  readonly forgetAt: number;
  /** The encoded answer (see `operations/answer.ts`), as the codec stored it; null for a `pending` that timed out. */
  readonly answer: Uint8Array | null;
  readonly lastErrorCode: string | null;
}

export interface RetryableRecord extends RecordBase {
  readonly state: "retryable";
  readonly lastErrorCode: string | null;
}

export interface UnknownRecord extends RecordBase {
  readonly state: "unknown";
  readonly lastErrorCode: string | null;
  /** When reconciliation asks next; null when only a person can settle it. */
  readonly reconcileAfter: number | null;
}

export interface ExpiredRecord extends RecordBase {
  readonly state: "expired";
  readonly finishedAt: number;
  readonly forgetAt: number;
}

export type LatchkeyRecord =
  | PendingRecord
  | InProgressRecord
  | FinishedRecord
  | RetryableRecord
  | UnknownRecord
  | ExpiredRecord;

export type RecordState = LatchkeyRecord["state"];

/** Names the exact version of the record that a guarded write was decided on. */
export interface Guard {
  readonly id: string;
  readonly state: RecordState;
  readonly fence: Fence;
}

export function guardOf(record: LatchkeyRecord): Guard {
  return { id: record.id, state: record.state, fence: record.fence };
}

export function sameFence(left: Fence, right: Fence): boolean {
  return left.attempt === right.attempt && left.token === right.token;
}
