/** What a settlement says, and what becomes of it. */

import type { LatchkeyRecord } from "../engine/record.ts";
import type { RunAnswer } from "../operations/owned-work.ts";
import type { ClientsName, LifeName } from "./find-record.ts";

/**
 * What is settled: one life of a key, by its record's id or by a downstream key. A client's key alone does not do, because it
 * may stand for a later life by now; with it, `downstreamKey` may also be said in the settlement.
 */
export type SettleTarget = LifeName | ClientsName;

/** Why it is certain that it did not happen. */
export type NotExecutedProof =
  /** The other side de-duplicates: sending again under the same key does it at most once. Of effects that say `provider`. */
  | "downstream-deduplicates"
  /** The other side refuses the call from now on. */
  | "closed-downstream"
  | OperatorProof;

/** A person answers for it. */
export interface OperatorProof {
  readonly operator: string;
  readonly reason: string;
}

export type SettleWith =
  /** All of it has happened, and this is the answer. */
  | { readonly completed: RunAnswer; readonly downstreamKey?: string }
  /** It has failed for good, and this is the answer. */
  | { readonly failed: RunAnswer; readonly downstreamKey?: string }
  /** One call has happened, with this result (JSON). The operation goes on after it. `call` is its step's name. */
  | { readonly call: string; readonly result: unknown; readonly downstreamKey?: string }
  /** The same of the call, or of the outbox's effect, that a downstream key names, here or in the target. */
  | { readonly call?: never; readonly result: unknown; readonly downstreamKey?: string }
  /**
   * It has not happened, and nothing is in doubt any more. A downstream key, here or in the target, names the call that this
   * is known of: another one in doubt is then left alone. A webhook that says `closed-downstream` of a call has to name it,
   * because a message that comes late, or again, would otherwise free a call that was sent since.
   * `downstream-deduplicates` of a call whose effect is known here and is not `provider` is a {TypeError}.
   */
  | { readonly notExecuted: NotExecutedProof; readonly downstreamKey?: string };

/** Who says so. */
export type SettledBy = "webhook" | OperatorProof;

export type SettleResult =
  | { readonly kind: "settled"; readonly recordId: string }
  /** There is nothing to settle. */
  | { readonly kind: "not_unknown"; readonly recordId: string; readonly state: LatchkeyRecord["state"] }
  /**
   * It came before anybody knew that the outcome is in doubt: its attempt runs, or may go on. It is kept, and settles the
   * record should that become unknown; where the attempt ends otherwise, that counts and this is dropped.
   */
  | { readonly kind: "kept"; readonly recordId: string }
  /** The outbox's effect that was named is delivered, or is about to be without another send: there is nothing to settle. */
  | { readonly kind: "already_delivered"; readonly recordId: string }
  /** The call that was named is not in doubt. */
  | { readonly kind: "no_such_call"; readonly recordId: string }
  /**
   * The doubt is a later one than that of which this was said, or read: what was known then need not hold now. Nothing was
   * changed; a person may look again, and settle it with a new reason.
   */
  | { readonly kind: "unknown_again"; readonly recordId: string }
  /** The key has this later life by now: what was said is of an earlier one. Nothing was changed. */
  | { readonly kind: "other_life"; readonly recordId: string }
  | { readonly kind: "not_found" };
