/** What a settlement consists of, and its results. */

import type { LatchkeyRecord } from "../engine/record.ts";
import type { RunAnswer } from "../operations/owned-work.ts";
import type { ClientsName, LifeName } from "./find-record.ts";

/**
 * The target: one life of a key, by its record's id or by a downstream key. A client's key alone is not enough, because it may
 * belong to a later life by now; with it, the settlement may also have the `downstreamKey`.
 */
export type SettleTarget = LifeName | ClientsName;

/** Why it is certain that it did not happen. */
export type NotExecutedProof =
  /** The other service deduplicates: a send under the same key happens at most once. For effects with `provider`. */
  | "downstream-deduplicates"
  /** The other service refuses the call from now on. */
  | "closed-downstream"
  | OperatorProof;

/** A person takes responsibility. */
export interface OperatorProof {
  readonly operator: string;
  readonly reason: string;
}

/** @throws {TypeError} when a part of it is missing or blank */
export function checkedProof({ operator, reason }: OperatorProof): OperatorProof {
  for (const [name, text] of Object.entries({ operator, reason })) {
    if (typeof text !== "string" || text.trim() === "")
      throw new TypeError(`${name} must be a non-empty string`);
  }
  return { operator, reason };
}

export type SettleWith =
  /** All of it has happened, and this is the answer. */
  | { readonly completed: RunAnswer; readonly downstreamKey?: string }
  /** It has failed for good, and this is the answer. */
  | { readonly failed: RunAnswer; readonly downstreamKey?: string }
  /** One call has happened, with this result (JSON). The operation continues after it. `call` is its step's name. */
  | { readonly call: string; readonly result: unknown; readonly downstreamKey?: string }
  /** The same for the call, or the outbox's effect, that a downstream key names, here or in the target. */
  | { readonly call?: never; readonly result: unknown; readonly downstreamKey?: string }
  /**
   * It has not happened, and nothing is in doubt any longer. A downstream key, here or in the target, names the call that this
   * is about: another one in doubt is then left alone. A webhook with `closed-downstream` must name its call, because a late or
   * repeated message could otherwise free a call that was sent since. `downstream-deduplicates` for a call whose effect is known
   * here and is not `provider` throws a {TypeError}.
   */
  | { readonly notExecuted: NotExecutedProof; readonly downstreamKey?: string };

/** Who settles it. */
export type SettledBy = "webhook" | OperatorProof;

export type SettleResult =
  | { readonly kind: "settled"; readonly recordId: string }
  /** There is nothing to settle. */
  | { readonly kind: "not_unknown"; readonly recordId: string; readonly state: LatchkeyRecord["state"] }
  /**
   * The outcome is not known to be in doubt yet: the attempt runs, or may continue. The settlement is kept, and applied if the
   * record becomes unknown; if the attempt ends otherwise, it is dropped.
   */
  | { readonly kind: "kept"; readonly recordId: string }
  /** The named effect of the outbox is delivered, or will be without another send: there is nothing to settle. */
  | { readonly kind: "already_delivered"; readonly recordId: string }
  /** The named call is not in doubt. */
  | { readonly kind: "no_such_call"; readonly recordId: string }
  /**
   * The doubt arose after the settlement was made, or after the record was read, so it may not apply. Nothing was changed; an
   * operator may look again, and settle it with a new reason.
   */
  | { readonly kind: "unknown_again"; readonly recordId: string }
  /** The key now has this later life; the settlement is about an earlier one. Nothing was changed. */
  | { readonly kind: "other_life"; readonly recordId: string }
  | { readonly kind: "not_found" };
