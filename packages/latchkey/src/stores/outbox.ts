/**
 * The outbox: effects that a business transaction wrote with its record, and that are delivered after it. An effect is
 * there exactly when its transaction has committed.
 *
 * - pending → claimed → started → delivered | dead; no other state. A claim is a lease: what is not ended in time goes
 *   back to `pending` (by `rescue`), whoever had it.
 * - Writes under a claim are guarded by (id, claimed, fence) and work on many effects at once: one atomic step for each
 *   effect, so that one that cannot be written does not stop the others. They answer the ids whose guard held. Repeating
 *   one whose reply was lost answers the same and changes nothing.
 * - An effect's row has all that its delivery needs: it does not depend on its record, which may be forgotten before.
 * - There is no cursor: an effect whose transaction commits late is found like any other.
 * - `input` and `result` are bytes that have passed the codec.
 */
import type { Fence, RecordKey } from "../engine/record.ts";
import type { AuditNote } from "./audit-note.ts";
import type { FinishedCallsQuery } from "./journal.ts";

/** What a transaction or a phase enqueues. */
export interface NewEffect {
  /** UUIDv7. */
  readonly id: string;
  /** Name of the effect's definition. */
  readonly effect: string;
  /** What the other side knows the delivery by. */
  readonly downstreamKey: string;
  /** Name of the phase that enqueued it; empty in a `transaction`. */
  readonly step: string;
  /** Place among the effects of that phase or transaction, from 0. */
  readonly index: number;
  /** What it belongs to, e.g. an order's number; null: nothing in particular. */
  readonly aggregate: string | null;
  /**
   * Effects of one definition and one aggregate are delivered one after the other, in the order in which they were
   * written; a tenant's aggregates are its own. One that is dead holds up those behind it. Transactions that
   * write to one aggregate at the same time have no order among them.
   */
  readonly ordered: boolean;
  readonly input: Uint8Array;
  /** How long after its transaction it is due. */
  readonly delayMs: number;
  /** The span in which it was enqueued, as a W3C traceparent of 55 characters. Absent: none. */
  readonly trace?: string;
}

/** `started`: a send was begun under the present claim. */
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
  /** Raised when a send was closed on the other side and is made again under another key; 0 at first. */
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
  /** How many sends came back, whatever they said, each counted once. The others ended with their process. */
  readonly returns: number;
  /** When the first send of this generation was begun that is not proven not to have happened; null: none. */
  readonly doubtfulSince: number | null;
  /** What the other side gave; known before the delivery is finished. */
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
   * The claim is the start, too (default: it is not), of those of which nothing is in doubt and no result is kept: for a dispatcher that sends
   * at once all that it gets, and may send again what was started and not sent.
   */
  readonly starts?: boolean;
}

/** A claim on one effect. */
export interface EffectClaim {
  readonly id: string;
  readonly fence: Fence;
}

interface Unsent {
  /** It was started under this claim, and no send followed: none is counted. Default false. */
  readonly unsent?: boolean;
}

export type DeliveryEnd = EffectClaim &
  (
    | {
        readonly event: "deliver";
        readonly result: Uint8Array | null;
        /** How long the row is kept to be seen. */
        readonly keepMs: number;
      }
    /** The send came back with this; the delivery goes on under the same claim. */
    | { readonly event: "keep_result"; readonly result: Uint8Array }
    /** → `pending`. `doubtful` false: no send of this generation can have happened. */
    | ({
        readonly event: "retry";
        readonly errorCode: string;
        readonly afterMs: number;
        readonly doubtful: boolean;
        /** Whether a send came back under this claim. */
        readonly returned: boolean;
      } & Unsent)
    /** → `pending`, with the next generation and this key, and nothing in doubt. */
    | { readonly event: "reopen"; readonly downstreamKey: string }
    /**
     * → `pending`, as if it had not been claimed. Only for what is not started, or `unsent`; then `doubtful` says whether
     * something was in doubt before the claim (default: nothing was), which stays so from when it was.
     */
    | ({ readonly event: "give_back"; readonly doubtful?: boolean } & Unsent)
    | ({ readonly event: "die"; readonly errorCode: string; readonly returned: boolean } & Unsent)
  );

export interface OutboxRescue {
  /** Claims whose time was over, and under which no send was begun. */
  readonly unstarted: number;
  /** … under which one was: it may have happened. */
  readonly started: number;
}

/**
 * What a person decides about one death of an effect, and about no later one: what is redriven can die again, of another
 * cause or with another send in doubt. Each comes with its audit row: both or neither.
 */
export type DeadDecision = NamedDeath & DeadVerdict;

interface NamedDeath {
  /**
   * Of the claim under which it died, which no other death of it has. Null: its first, and so refused once somebody has
   * decided about it or confirmed it while it was dead.
   */
  readonly attempt: number | null;
}

export type DeadVerdict =
  /**
   * → `pending`, due now, its sends and returns counted from 0. `cleared`: what was in doubt has not happened and will not;
   * the person who says so answers for it. `kept`: the delivery goes on with the doubt as it was.
   */
  | { readonly event: "redrive"; readonly doubt: "kept" | "cleared" }
  /** → `delivered`: it happened, or shall never happen. */
  | { readonly event: "discard"; readonly keepMs: number };

export interface DeadNote {
  /** UUIDv7 of the audit row: repeating a decision whose reply was lost adds none. */
  readonly id: string;
  readonly actor: string;
  readonly reason: string | null;
}

export interface EffectConfirmation {
  readonly id: string;
  /** The generation that it is said of. */
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
  /** The last one of the page before. */
  readonly after: { readonly createdAt: number; readonly id: string } | null;
}

export interface OutboxSupport {
  /**
   * Claims with the same answer may go into one call of `start` or `end`, for a store that is several: one that fails must not
   * fail the others' claims. Absent: any may.
   */
  partOf?(id: string): unknown;

  /**
   * Takes effects that are due, of each wanted definition at most its limit: those due first, first. Of an ordered
   * aggregate only the first that is not delivered. Rows that another transaction is changing are skipped. All get this token and a
   * lease of `leaseMs`. Those that were started by the claim come as `started`, with the send counted.
   */
  claim(wants: readonly EffectWant[], token: string, leaseMs: number): Promise<readonly OutboxEffect[]>;

  /**
   * Right before a send: → `started`, one more send, doubtful from now unless it was before; the lease is `leaseMs` from
   * now. Answers those that may be sent: whose claim holds, whose lease has not ended, and that are not started yet (or
   * were by this very call, whose reply was lost).
   */
  start(claims: readonly EffectClaim[], leaseMs: number): Promise<readonly string[]>;

  /** Ends claims. Answers those whose claim held; an ended lease does not matter until it is rescued. */
  end(ends: readonly DeliveryEnd[]): Promise<readonly string[]>;

  /**
   * Frees at most `limit` claims whose lease has ended, oldest first, by the state, the fence and the lease at the moment of
   * the write. Started ones are `pending` again, due at once, and doubtful; what that means is for the next claim to
   * decide, by the effect's definition.
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
   * last one of the page before. Absent: the store cannot say.
   */
  finished?(query: FinishedCallsQuery): Promise<readonly OutboxEffect[]>;

  /**
   * The other side says that it has happened, with this result: from here on it is not sent. One that is dead, waits, or was
   * claimed and not started is `pending`, due now, with the result kept; one that is being sent goes on under its claim, and
   * its own end counts, but should that leave it `pending`, the result is kept. Comes with its audit row: both or neither.
   *
   * False: it is delivered, has a result or is of another generation. A repetition with the same audit id answers true when
   * the first has been written.
   */
  confirm(confirmation: EffectConfirmation, note: AuditNote): Promise<boolean>;

  /**
   * False: it is not dead, or it has died again since the death that the decision names. A repetition with the same audit id
   * answers true when the first has been written.
   */
  decide(id: string, decision: DeadDecision, note: DeadNote): Promise<boolean>;
}
