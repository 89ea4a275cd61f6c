import {
  type Fingerprint,
  type FinishedRecord,
  type Guard,
  guardOf,
  type InProgressRecord,
  type LatchkeyRecord,
  type LeaseEnd,
} from "./record.ts";

/** What admission answers instead of running the work. To begin or continue an attempt is a `Verdict`. */
export type Decision =
  | { readonly kind: "replay"; readonly record: FinishedRecord }
  /** The record has waited too long for a worker and will not be started any more. */
  | { readonly kind: "timeout"; readonly recordId: string }
  | {
      readonly kind: "in_progress";
      readonly recordId: string | null;
      /** When the record's life began; null where the store cannot read it. */
      readonly createdAt: number | null;
      readonly leaseEndsAt: number | null;
    }
  | Misuse
  | { readonly kind: "unknown"; readonly recordId: string; readonly reconcileAfter: number | null }
  | { readonly kind: "expired" };

export interface Misuse {
  readonly kind: "key_misuse";
  readonly because: "fingerprint" | "principal" | "operation";
  /** The record proves that its request has had no effect and will have none. Absent: it may have one, or the caller is not the record's. */
  readonly nothingHappened?: true;
}

/** Why a dead attempt is settled as `unknown` instead of being taken over. */
export type GiveUpReason = "lease-ended" | "attempts-spent" | "past-expiry";

/**
 * What to do next. `answer` is final; each of the others is one guarded write, and when that write finds the record
 * changed, the whole decision runs again on the changed record.
 */
export type Verdict =
  /** Start a new life; `replaces` names the forgotten or expired record to overwrite, if its row is still there. */
  | { readonly kind: "create"; readonly replaces: Guard | null }
  | { readonly kind: "take_over"; readonly guard: Guard }
  /** The record is this caller's own attempt: its admission happened, only the reply was lost. */
  | { readonly kind: "own"; readonly record: InProgressRecord }
  | { readonly kind: "give_up"; readonly guard: Guard; readonly because: GiveUpReason }
  | { readonly kind: "answer"; readonly decision: Decision };

/** The request as admission sees it. */
export interface AdmissionRequest {
  readonly operation: string;
  readonly fingerprint: Fingerprint;
  readonly principal: string | null;
  /** The token this caller would own the record with. */
  readonly token: string;
  /** How a request is treated whose key is between `expiresAt` and `forgetAt`. */
  readonly reuse: "reject" | "execute";
  readonly leaseEnd: LeaseEnd;
  /** How often one life may be started, the first time included. */
  readonly attemptsMax: number;
}

/**
 * The whole admission decision, on one reading of the record and the store's time at that reading. It judges
 * expiry itself and never depends on the record-cleaner having run.
 */
export function decide(record: LatchkeyRecord | null, request: AdmissionRequest, now: number): Verdict {
  if (record === null) return { kind: "create", replaces: null };
  if (mayRunAsNew(record, request, now)) return { kind: "create", replaces: guardOf(record) };
  const misuse = misuseOf(record, request, now);
  if (misuse !== null) return answer(misuse);
  if (isExpired(record, now)) return answer({ kind: "expired" });
  return decideLive(record, request, now);
}

function decideLive(record: LatchkeyRecord, request: AdmissionRequest, now: number): Verdict {
  switch (record.state) {
    case "completed":
    case "failed":
      return answer({ kind: "replay", record });
    case "pending":
      return answer(now < record.expiresAt ? runs(record, null) : { kind: "timeout", recordId: record.id });
    case "in_progress":
      return decideInProgress(record, request, now);
    case "retryable":
      return { kind: "take_over", guard: guardOf(record) };
    case "unknown":
      return answer({ kind: "unknown", recordId: record.id, reconcileAfter: record.reconcileAfter });
    case "expired":
      return answer({ kind: "expired" });
    default:
      return record satisfies never;
  }
}

function decideInProgress(record: InProgressRecord, request: AdmissionRequest, now: number): Verdict {
  if (record.fence.token === request.token) return { kind: "own", record };
  if (now < record.leaseEndsAt) {
    return answer(runs(record, record.leaseEndsAt));
  }
  const because = giveUpReason(record, request, now);
  const guard = guardOf(record);
  return because === null ? { kind: "take_over", guard } : { kind: "give_up", guard, because };
}

function runs({ id, createdAt }: LatchkeyRecord, leaseEndsAt: number | null): Decision {
  return { kind: "in_progress", recordId: id, createdAt, leaseEndsAt };
}

/** Why an attempt whose lease has ended must not be taken over, or null when it may be. */
export function giveUpReason(
  record: InProgressRecord,
  policy: Pick<AdmissionRequest, "leaseEnd" | "attemptsMax">,
  now: number,
): GiveUpReason | null {
  if (policy.leaseEnd === "reconcile") return "lease-ended";
  if (record.fence.attempt >= policy.attemptsMax) return "attempts-spent";
  if (now >= record.expiresAt) return "past-expiry";
  return null;
}

function mayRunAsNew(record: LatchkeyRecord, request: AdmissionRequest, now: number): boolean {
  switch (record.state) {
    case "completed":
    case "failed":
    case "expired":
      return now >= record.forgetAt || (request.reuse === "execute" && isExpired(record, now));
    default:
      return false;
  }
}

function isExpired(record: LatchkeyRecord, now: number): boolean {
  switch (record.state) {
    case "completed":
    case "failed":
      return now >= record.expiresAt;
    default:
      return record.state === "expired";
  }
}

function misuseOf(record: LatchkeyRecord, request: AdmissionRequest, now: number): Misuse | null {
  // Another principal must not learn how this one's request ended.
  if (record.principal !== request.principal) return { kind: "key_misuse", because: "principal" };
  const idle = wasNeverStarted(record, now) ? ({ nothingHappened: true } as const) : {};
  if (record.operation !== request.operation) return { kind: "key_misuse", because: "operation", ...idle };
  if (sameFingerprint(record.fingerprint, request.fingerprint)) return null;
  return { kind: "key_misuse", because: "fingerprint", ...idle };
}

/** Whether the record timed out before it was started. After any other end, a failure included, steps may have happened. */
function wasNeverStarted(record: LatchkeyRecord, now: number): boolean {
  switch (record.state) {
    case "pending":
      return now >= record.expiresAt;
    case "failed":
      return record.answer === null;
    default:
      return false;
  }
}

/** Equality of two digests of one version; digests of different versions never compare equal. */
export function sameFingerprint(left: Fingerprint, right: Fingerprint): boolean {
  if (left.version !== right.version || left.digest.length !== right.digest.length) return false;
  return left.digest.every((byte, index) => byte === right.digest[index]);
}

function answer(decision: Decision): Verdict {
  return { kind: "answer", decision };
}
