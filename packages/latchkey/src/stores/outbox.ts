/**
 * The outbox: effects that a business transaction wrote with its record, and that are delivered after it. An effect exists
 * exactly when its transaction has committed.
 *
 * - pending → claimed → started → delivered | dead; no other state. A claim is a lease: an effect whose claim is not ended in
 *   time goes back to `pending` (by `rescue`).
 * - Writes under a claim are guarded by (id, claimed, fence) and work on many effects at once: one atomic step for each
 *   effect, so that one that cannot be written does not stop the others. They return the ids whose guard held. Repeating
 *   one whose reply was lost returns the same and changes nothing.
 * - An effect's row has everything that its delivery needs: it does not depend on its record, which may be forgotten before.
 * - There is no cursor: an effect whose transaction commits late is found like any other.
 * - `input` and `result` are bytes that have passed the codec.
 */
import type { Fence, RecordKey } from "../engine/record.ts";
import type { AuditNote } from "./audit-note.ts";
import type { FinishedCallsQuery } from "./journal.ts";

/** An effect that a transaction or a phase enqueues. */
export interface NewEffect {
  /** UUIDv7. */
  readonly id: string;
  /** Name of the effect's definition. */
  readonly effect: string;
  /** The key by which the other service recognises the delivery. */
  readonly downstreamKey: string;
  /** Name of the phase that enqueued it; empty in a `transaction`. */
  readonly step: string;
  /** Place among the effects of that phase or transaction, from 0. */
  readonly index: number;
  /** What it belongs to, e.g. an order's number; null if nothing in particular. */
  readonly aggregate: string | null;
  /**
   * Effects of one definition and one aggregate are delivered one after the other, in the order in which they were
   * written; aggregates of different tenants are different. A dead effect blocks those after it. Transactions that write to
   * one aggregate at the same time have no order among them.
   */
  readonly ordered: boolean;
  readonly input: Uint8Array;
  /** How long after its transaction it is due. */
  readonly delayMs: number;
  /** The span in which it was enqueued, as a W3C traceparent of 55 characters. Absent: none. */
  readonly trace?: string;
}

/** `started`: a send was begun under the current claim. */
export type EffectState = "pending" | "claimed" | "started" | "delivered" | "dead";

/** An effect in the outbox. `tenant`, `scope` and `key` are its record's. */
export interface OutboxEffect extends RecordKey {
  readonly id: string;
  readonly state: EffectState;
  readonly recordId: string;
  readonly operation: string;
  /** The digest of its record's fingerprint, for the codec. */
  readonly fingerprint: Uint8Array;
  readonly effect: string;
  readonly step: string;
  readonly index: number;
  /** Raised when a send was closed at the other service and is repeated under another key; 0 at first. */
  readonly generation: number;
  readonly downstreamKey: string;
  readonly aggregate: string | null;
  readonly ordered: boolean;
  readonly input: Uint8Array;
  readonly createdAt: number;
  /** Of the last claim; the attempt is raised by each. 0 before the first, with an empty token. */
  readonly fence: Fence;
  /** How often a send was begun. */
  readonly sends: number;
  /** How many sends returned, with whatever result, each counted once. The others ended with their process. */
  readonly returns: number;
  /** When the first send of this generation was begun that is not proven not to have happened; null: none. */
  readonly doubtfulSince: number | null;
  /** The other service's result; known before the delivery is finished. */
  readonly result: Uint8Array | null;
  readonly lastErrorCode: string | null;
  /** When it was delivered or given up. */
  readonly finishedAt: number | null;
  /** The span in which it was enqueued. Absent: none was kept. */
  readonly trace?: string;
}

/** How many effects of one definition a dispatcher has capacity for. */
export interface EffectWant {
  readonly effect: string;
  readonly limit: number;
  /**
   * Whether the claim also marks effects as started if nothing about them is in doubt and no result is stored. Default false.
   * For a dispatcher that sends every claimed effect immediately and may repeat a send that was recorded but not made.
   */
  readonly starts?: boolean;
}

/** A claim on one effect. */
export interface EffectClaim {
  readonly id: string;
  readonly fence: Fence;
}

interface Unsent {
  /** The effect was started under this claim, but not sent, so no send is counted. Default false. */
  readonly unsent?: boolean;
}

export type DeliveryEnd = EffectClaim &
  (
    | {
        readonly event: "deliver";
        readonly result: Uint8Array | null;
        /**
         * How long the row is kept for inspection. With 0 the store may remove it in this step; then repeating this end, whose
         * reply was lost, returns nothing.
         */
        readonly keepMs: number;
      }
    /** The send returned this result; the delivery goes on under the same claim. */
    | { readonly event: "keep_result"; readonly result: Uint8Array }
    /** → `pending`. `doubtful` false: no send of this generation can have happened. */
    | ({
        readonly event: "retry";
        readonly errorCode: string;
        readonly afterMs: number;
        readonly doubtful: boolean;
        /** Whether a send returned under this claim. */
        readonly returned: boolean;
      } & Unsent)
    /** → `pending`, with the next generation and this key, and nothing in doubt. */
    | { readonly event: "reopen"; readonly downstreamKey: string }
    /**
     * → `pending`, as if it had not been claimed. Only for an effect that is not started, or `unsent`; then `doubtful` is
     * whether a send was in doubt before the claim (default: none was), and that doubt keeps its time.
     */
    | ({ readonly event: "give_back"; readonly doubtful?: boolean } & Unsent)
    | ({ readonly event: "die"; readonly errorCode: string; readonly returned: boolean } & Unsent)
  );

export interface OutboxRescue {
  /** Claims whose lease had ended, and under which no send was begun. */
  readonly unstarted: number;
  /** Claims whose lease had ended, and under which a send was begun, which may have happened. */
  readonly started: number;
}

/**
 * An operator's decision about one death of an effect, and about no later one: a redriven effect can die again, of another
 * cause or with another send in doubt. Each decision is written with its audit row: both or neither.
 */
export type DeadDecision = NamedDeath & DeadVerdict;

interface NamedDeath {
  /**
   * The attempt of the claim under which it died, which no other death of it has. Null: its first death, so the decision is
   * refused once an operator has decided about the effect or it was confirmed while it was dead.
   */
  readonly attempt: number | null;
}

export type DeadVerdict =
  /**
   * → `pending`, due now, its sends and returns counted from 0. `cleared`: the send in doubt has not happened and will not, for
   * which the operator is responsible. `kept`: the delivery goes on with the doubt as it was.
   */
  | { readonly event: "redrive"; readonly doubt: "kept" | "cleared" }
  /** → `delivered`: the effect has happened, or must never happen. */
  | { readonly event: "discard"; readonly keepMs: number };

export interface DeadNote {
  /** UUIDv7 of the audit row: repeating a decision whose reply was lost adds none. */
  readonly id: string;
  readonly actor: string;
  readonly reason: string | null;
}

export interface EffectConfirmation {
  readonly id: string;
  /** The generation that is confirmed. */
  readonly generation: number;
  readonly result: Uint8Array;
}

export interface EffectKey {
  readonly recordId: string;
  readonly downstreamKey: string;
}

export interface EffectFilter {
  readonly state: EffectState;
  readonly effect: string | null;
  readonly tenant: string | null;
  readonly limit: number;
  /** The last effect of the previous page. */
  readonly after: { readonly createdAt: number; readonly id: string } | null;
}

export interface OutboxSupport {
  /**
   * Claims with the same return value may go into one call of `start` or `end`. For a store that consists of several: one that
   * fails must not fail the claims of the others. Absent: any claims may share a call.
   */
  partOf?(id: string): unknown;

  /**
   * Claims effects that are due, of each wanted definition at most its limit, in the order of their due times. Of an ordered
   * aggregate only the first undelivered one. Rows that another transaction is changing are skipped. All get this token and a
   * lease of `leaseMs`. Effects that the claim has started are returned as `started`, with the send counted.
   */
  claim(wants: readonly EffectWant[], token: string, leaseMs: number): Promise<readonly OutboxEffect[]>;

  /**
   * Right before a send: → `started`, one more send, doubtful from now unless it was before; the lease is `leaseMs` from
   * now. Returns the ids that may be sent: those whose claim holds, whose lease has not ended, and that are not started yet
   * (or were started by this very call, whose reply was lost).
   */
  start(claims: readonly EffectClaim[], leaseMs: number): Promise<readonly string[]>;

  /** Ends claims. Returns the ids whose claim held; an ended lease does not matter until it is rescued. */
  end(ends: readonly DeliveryEnd[]): Promise<readonly string[]>;

  /**
   * Frees at most `limit` claims whose lease has ended, oldest first, judged by the state, the fence and the lease at the
   * moment of the write. Started ones are `pending` again, due at once, and doubtful; the next claim decides what that means,
   * by the effect's definition.
   */
  rescue(limit: number): Promise<OutboxRescue>;

  /** By `createdAt` and then `id`. */
  list(filter: EffectFilter): Promise<readonly OutboxEffect[]>;

  /** Those of one life, in the order in which they were written. */
  ofRecord(recordId: string): Promise<readonly OutboxEffect[]>;

  /**
   * Those that have one of these downstream keys now, in any order; the record's id is the one that the key was made for.
   * Absent: each record's effects are read by `ofRecord`.
   */
  byDownstreamKey?(keys: readonly EffectKey[]): Promise<readonly OutboxEffect[]>;

  /**
   * Effects of one definition that were delivered between two times, by `finishedAt` and then `downstreamKey`; `after` is the
   * last one of the previous page. Absent: the store cannot list them.
   */
  finished?(query: FinishedCallsQuery): Promise<readonly OutboxEffect[]>;

  /**
   * The other service confirms that the effect has happened, with this result: from now on it is not sent. One that is dead,
   * waits, or was claimed and not started becomes `pending`, due now, with the result kept. One that is being sent goes on
   * under its claim, whose own end counts; if that leaves it `pending`, the result is kept. Written with its audit row: both
   * or neither.
   *
   * False if it is delivered, has a result or is of another generation. A repetition with the same audit id returns true if
   * the first call has been written.
   */
  confirm(confirmation: EffectConfirmation, note: AuditNote): Promise<boolean>;

  /**
   * False if it is not dead, or has died again since the death that the decision names. A repetition with the same audit id
   * returns true if the first call has been written.
   */
  decide(id: string, decision: DeadDecision, note: DeadNote): Promise<boolean>;
}
