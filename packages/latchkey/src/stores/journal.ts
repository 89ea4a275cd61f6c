/**
 * The journal of a life: its input and its steps. A resumed attempt continues from it.
 *
 * - Only the owner writes steps, and every write is one atomic step guarded by (id, `in_progress`, fence): null or false
 *   means that the owner has lost and nothing was written. A write may be repeated after any failure.
 * - A step is identified by its name within its life. Finished steps never change and are never removed before their record.
 * - `input`, `result` and an effect's input are bytes that have passed the codec; the store does not look inside.
 * - Steps go when their record goes: when it is forgotten, released, or replaced by a new life. Purging the answer leaves
 *   them.
 */
import type { Fence, RecordKey } from "../engine/record.ts";

/** Who may write: the attempt that owns the record. */
export interface Owner {
  readonly key: RecordKey;
  /** The record's id. */
  readonly id: string;
  readonly fence: Fence;
}

interface StepBase {
  /** Unique within the life. */
  readonly name: string;
  /** Order in which steps were begun, from 0. */
  readonly position: number;
  /** Version of the operation that began the step. */
  readonly version: string;
}

/** A phase is written by its own commit, so it is there only when it is finished. */
export interface PhaseStep extends StepBase {
  readonly kind: "phase";
  readonly result: Uint8Array;
  readonly finishedAt: number;
}

/**
 * - `started`: the intent is written; whether the call happened is not known.
 * - `finished`: the call happened and returned `result`.
 * - `refused`: the other service refused for good; `result` has its refusal.
 * - `not_executed`: proven not to have happened; it may be started again.
 */
export type CallState = "started" | "finished" | "refused" | "not_executed";

export interface CallStep extends StepBase {
  readonly kind: "call";
  readonly state: CallState;
  /** Name of the effect. */
  readonly effect: string;
  /** Raised by a settlement that has closed the call of the generation before; 0 at first. */
  readonly generation: number;
  /** The key by which the other service recognises this call; derived from the record's id, the step and the generation. */
  readonly downstreamKey: string;
  /** The input of every send of this step, from any attempt. */
  readonly input: Uint8Array;
  /** Null unless `finished` or `refused`. */
  readonly result: Uint8Array | null;
  /** How often a send of this generation was begun. */
  readonly sends: number;
  /** When the first send of this generation was begun that is not proven not to have happened. */
  readonly startedAt: number;
  readonly finishedAt: number | null;
}

export type Step = PhaseStep | CallStep;

export interface Journal {
  /** Null if the operation does not own its work, or the life has ended. */
  readonly input: Uint8Array | null;
  /** Name of the last finished step. */
  readonly recoveryPoint: string | null;
  /** By position. */
  readonly steps: readonly Step[];
  /** The store's time at this reading. */
  readonly now: number;
}

/** A call about to be sent. */
export interface CallIntent {
  readonly name: string;
  readonly position: number;
  readonly version: string;
  readonly effect: string;
  readonly generation: number;
  readonly downstreamKey: string;
  readonly input: Uint8Array;
}

export type CallEnd =
  | { readonly event: "finish" | "refuse"; readonly result: Uint8Array }
  | { readonly event: "not_executed" };

export interface JournalSupport {
  /** The journal of this life; null when the key's record is gone or of another life. */
  read(key: RecordKey, id: string): Promise<Journal | null>;

  /**
   * Writes the intent before a send. A step that does not exist is inserted. One of the same generation that is `started`
   * keeps its input, its `downstreamKey` and its `startedAt`, and counts one more send; one that is `not_executed` is
   * `started` again with its own input and `downstreamKey`, one more send and a new `startedAt`. Any other is left as it
   * is. Returns the current step, and the store's time. Null if the owner has lost.
   *
   * @throws when the name is a phase's; nothing is written.
   */
  startCall(
    owner: Owner,
    intent: CallIntent,
  ): Promise<{ readonly step: CallStep; readonly now: number } | null>;

  /**
   * Ends a call that is `started`, in this generation; `finish` and `refuse` also advance the recovery point. Repeating
   * the same end, with the same result, returns true again and changes nothing. False if the owner has lost, or the call is
   * not in that place.
   */
  endCall(
    owner: Owner,
    call: { readonly name: string; readonly generation: number },
    end: CallEnd,
  ): Promise<boolean>;

  /**
   * Gives the attempt a new token and a lease of `leaseMs` from now, so that a delayed write under the old token can no longer
   * take effect; waits at most `timeoutMs` for a write that has begun. Returns the new fence and the journal as it then is.
   * Possible after the lease has ended, too, until it is taken over; repeating it with the same token returns the same. Null if
   * the owner has lost, or the attempt has ended. This settles a phase whose COMMIT is in doubt: if that phase was to complete
   * the attempt, the record shows whether it did.
   *
   * @throws {StoreError} when the new fence could not be confirmed in time.
   */
  refence(
    owner: Owner,
    token: string,
    leaseMs: number,
    timeoutMs: number,
  ): Promise<{ readonly fence: Fence; readonly journal: Journal } | null>;

  /** Calls by their downstream keys, in no order, with their records' keys. Unknown ones are left out. */
  callsByDownstreamKey(keys: readonly string[]): Promise<readonly JournalCall[]>;

  /**
   * Calls of an effect that are `finished` and ended between two times, by `finishedAt` and then `downstreamKey`; `after`
   * is the last one of the previous page.
   */
  finishedCalls(query: FinishedCallsQuery): Promise<readonly JournalCall[]>;
}

export interface FinishedCallsQuery {
  readonly effect: string;
  /** `finishedAt` from here on. */
  readonly from: number;
  /** `finishedAt` before this. */
  readonly to: number;
  readonly limit: number;
  readonly after: { readonly finishedAt: number; readonly downstreamKey: string } | null;
}

export interface JournalCall {
  readonly key: RecordKey;
  readonly recordId: string;
  /** The digest of the record's fingerprint, for the codec. */
  readonly fingerprint: Uint8Array;
  readonly step: CallStep;
}
