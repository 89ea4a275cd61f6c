/** How the memory store builds the next version of a record; every change of state goes through `move`. */
import type { RecordEvent } from "../../engine/edges.ts";
import type {
  FinishedRecord,
  LatchkeyRecord,
  PendingRecord,
  RecordKey,
  RecordState,
} from "../../engine/record.ts";
import { IllegalTransition, transition } from "../../engine/transition.ts";
import type { NewLife } from "../life.ts";
import type { LeaseTerms, Retention } from "../store.ts";

export type StateOrNone = RecordState | "none";

/** The fields that records of every state have. */
export type Life = Omit<PendingRecord, "state" | "expiresAt">;

/**
 * Takes the edge `event`, which leads to `to`.
 *
 * @throws {IllegalTransition} when it does not.
 */
export function move<To extends StateOrNone>(from: StateOrNone, event: RecordEvent, to: To): To {
  if (transition(from, event) !== to) throw new IllegalTransition(from, event);
  return to;
}

export function lifeOf(source: NewLife | LatchkeyRecord, createdAt: number): Life {
  const { tenant, scope, key, id, operation, fingerprint, principal, fence, trace } = source;
  const life = { tenant, scope, key, id, operation, fingerprint, principal, fence, createdAt };
  return trace === undefined ? life : { ...life, trace };
}

export function keyOf({ tenant, scope, key }: RecordKey): RecordKey {
  return { tenant, scope, key };
}

export function pointInTime(now: number, delayMs: number | null): number | null {
  return delayMs === null ? null : now + delayMs;
}

export function leaseOf(terms: LeaseTerms, createdAt: number, now: number) {
  return { leaseEndsAt: now + terms.leaseMs, expiresAt: createdAt + terms.abandonAfterMs };
}

interface Ending {
  readonly answer: Uint8Array | null;
  readonly retention: Retention;
  readonly errorCode: string | null;
}

export function finished(
  life: Life,
  state: FinishedRecord["state"],
  { answer, retention, errorCode }: Ending,
  now: number,
): FinishedRecord {
  const { retentionMs, forgetAfterMs } = retention;
  if (forgetAfterMs < retentionMs) throw new TypeError("forgetAfterMs must not be shorter than retentionMs");
  const times = { finishedAt: now, expiresAt: now + retentionMs, forgetAt: now + forgetAfterMs };
  return { ...life, state, answer, lastErrorCode: errorCode, ...times };
}
