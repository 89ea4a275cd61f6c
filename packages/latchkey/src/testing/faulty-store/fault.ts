/** What can go wrong with one call to a store. */
import type { RecordKey } from "../../engine/record.ts";

/** The calls of a store that cross the network; a transaction, a phase or a delivery crosses it when it opens and when it ends. */
export type StorePort =
  | "verify"
  | "read"
  | "readById"
  | "create"
  | "accept"
  | "claimPending"
  | "takeOver"
  | "renew"
  | "end"
  | "giveUp"
  | "recordLostTransaction"
  | "endedLeases"
  | "clean"
  | "open"
  | "commit"
  | "rollback"
  | "abandon"
  | "resolve"
  | "openPhase"
  | "commitPhase"
  | "rollbackPhase"
  | "abandonPhase"
  | "openDelivery"
  | "commitDelivery"
  | "rollbackDelivery"
  | "abandonDelivery"
  | "openBatch"
  | "commitBatch"
  | "rollbackBatch"
  | "abandonBatch"
  | "readJournal"
  | "startCall"
  | "endCall"
  | "refence"
  | "callsByDownstreamKey"
  | "finishedCalls"
  | "settle"
  | "hasten"
  | "claimUnknowns"
  | "postpone"
  | "resumable"
  | "listRecords"
  | "readAudit"
  | "claimEffects"
  | "startEffects"
  | "endEffects"
  | "rescueEffects"
  | "listEffects"
  | "effectsOfRecord"
  | "effectsByKey"
  | "finishedEffects"
  | "confirmEffect"
  | "decideEffect"
  | "findMessage"
  | "countMessage"
  | "forgetMessage"
  | "buryMessage"
  | "listMessages"
  | "removeMessage"
  | "sendHint"
  | "receiveHint"
  | "listenToHints"
  | "keepEarly"
  | "readEarly"
  | "dueEarly"
  | "readSummary"
  | "keepFacts"
  | "readFacts"
  | "cleanForArchive"
  | "dueForArchive"
  | "forgetArchived"
  | "sweepTenant"
  | "noteTenant"
  | "overview"
  | "countActiveKeys"
  | "examine"
  | "cleanAudit"
  | "listAudit";

export interface StoreCall {
  /** 1 for the first call through this wrapper. */
  readonly number: number;
  readonly port: StorePort;
  /** Null for calls about no single key. */
  readonly key: RecordKey | null;
}

/**
 * What happens to a call.
 * - `proceed`: nothing unusual.
 * - `not_sent`: it fails before it reaches the store, and the caller knows that.
 * - `request_lost`: it never reaches the store; the caller cannot know (`in_doubt`).
 * - `reply_lost`: it takes effect; the caller cannot know (`in_doubt`).
 * - `crash_before`, `crash_after`: the caller's process dies before or after the effect, and the call never settles.
 * - `reply`: it takes effect at once, its reply comes when the promise resolves.
 * - `late`: the caller gets `in_doubt` at once; the effect comes when the promise resolves.
 */
export type Fault =
  | "proceed"
  | "not_sent"
  | "request_lost"
  | "reply_lost"
  | "crash_before"
  | "crash_after"
  | { readonly kind: "reply"; readonly until: Promise<void> }
  | { readonly kind: "late"; readonly until: Promise<void> };

/** Decides what happens to each call. A promise that is still pending keeps the call from reaching the store. */
export type FaultPlan = (call: StoreCall) => Fault | Promise<Fault>;

/** How a fault shows: whether and when the effect comes, and how the call ends for the caller. */
export interface FaultOutcome {
  readonly effect: "none" | "now" | "late";
  readonly callerGets: "reply" | "not_sent" | "in_doubt" | "nothing";
  readonly until: Promise<void>;
}

export const atOnce = Promise.resolve();

/** Of a call without a fault, as nearly all are. */
export const proceeds: FaultOutcome = { effect: "now", callerGets: "reply", until: atOnce };

export function outcomeOf(fault: Fault): FaultOutcome {
  switch (fault) {
    case "proceed":
      return proceeds;
    case "not_sent":
      return { effect: "none", callerGets: "not_sent", until: atOnce };
    case "request_lost":
      return { effect: "none", callerGets: "in_doubt", until: atOnce };
    case "reply_lost":
      return { effect: "now", callerGets: "in_doubt", until: atOnce };
    case "crash_before":
      return { effect: "none", callerGets: "nothing", until: atOnce };
    case "crash_after":
      return { effect: "now", callerGets: "nothing", until: atOnce };
    default:
      return fault.kind === "reply"
        ? { effect: "now", callerGets: "reply", until: fault.until }
        : { effect: "late", callerGets: "in_doubt", until: fault.until };
  }
}
