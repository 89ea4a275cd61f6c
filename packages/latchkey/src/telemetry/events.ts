/** The typed list of what Latchkey reports about itself. Keys appear only as keyed hashes. */

import type { Execution } from "../engine/classify.ts";

/** What an event is about. */
export interface About {
  readonly operation: string;
  readonly tenant: string;
  /** Prefix of a keyed hash of (tenant, scope, key). */
  readonly keyHash: string;
}

/** What an event is about that says how a delivery from the outbox went. */
export interface AboutEffect extends About {
  readonly recordId: string;
  /** Name of its definition. */
  readonly effect: string;
  readonly effectId: string;
}

/** What an event is about that says what became of a message; tenant and key are empty where it does not say. */
export interface AboutMessage extends About {
  /** The queue, stream or topic. */
  readonly source: string;
}

export type LatchkeyEvent =
  | (About & {
      readonly type: "executed";
      readonly recordId: string;
      readonly execution: Execution;
      readonly attempt: number;
      readonly durationMs: number;
    })
  | (About & { readonly type: "replayed"; readonly recordId: string })
  | (About & { readonly type: "in_progress" })
  /** Deferred: its record waits for a worker, runs in one, or will be gone on with. */
  | (About & { readonly type: "accepted"; readonly recordId: string })
  | (About & { readonly type: "key_misuse"; readonly because: "fingerprint" | "principal" | "operation" })
  /** A request was answered that the outcome of its key is unknown. */
  | (About & { readonly type: "unknown"; readonly recordId: string })
  | (About & { readonly type: "expired" })
  | (About & { readonly type: "too_many_keys"; readonly because: "newKeys" | "lookups" | "activeKeys" })
  /** A rate limiter failed; the request went on. */
  | (About & {
      readonly type: "limiter_error";
      readonly limit: "newKeys" | "lookups";
      readonly error: unknown;
    })
  /** A key's first record was written before its work: under a lease, or for a worker (`execution: "deferred"`). */
  | (About & { readonly type: "reserved"; readonly recordId: string; readonly by: "lease" | "deferred" })
  /** A worker has taken a deferred request that waited. */
  | (About & { readonly type: "claimed"; readonly recordId: string; readonly attempt: number })
  /** Another attempt has the record: that of a dead owner, or one that was to be tried again. */
  | (About & {
      readonly type: "taken_over";
      readonly recordId: string;
      readonly attempt: number;
      readonly from: "in_progress" | "retryable";
      readonly by: "request" | "worker";
    })
  /** A step of an owned attempt was recorded with its result; it never runs again. */
  | (About & {
      readonly type: "step_finished";
      readonly recordId: string;
      readonly step: string;
      readonly kind: "phase" | "call";
    })
  /** An attempt has ended so that the next one continues it. `resumeAfterMs`: when a worker does; null: the next request. */
  | (About & {
      readonly type: "retryable";
      readonly recordId: string;
      readonly errorCode: string;
      readonly resumeAfterMs: number | null;
    })
  /** The outcome of an attempt is not known here; its record is `unknown` until it is settled. */
  | (About & { readonly type: "became_unknown"; readonly recordId: string; readonly because: string })
  /** An attempt has ended without leaving a record. */
  | (About & { readonly type: "released"; readonly recordId: string })
  /** The handler threw, or did something wrong that changes nothing, such as answering twice. */
  | (About & { readonly type: "attempt_failed"; readonly recordId: string; readonly error: unknown })
  | (About & { readonly type: "lease_lost"; readonly recordId: string })
  /** A dead attempt was settled as `unknown`, by the lease-rescuer or by a request. */
  | (About & { readonly type: "lease_rescued"; readonly recordId: string; readonly because: string })
  /** An attempt goes on after the last finished step. */
  | (About & {
      readonly type: "attempt_resumed";
      readonly recordId: string;
      readonly attempt: number;
      readonly by: "request" | "worker";
      readonly recoveryPoint: string | null;
    })
  /** A finished step gave its stored result, without running. */
  | (About & { readonly type: "step_resumed"; readonly recordId: string; readonly step: string })
  /** A call may have happened, and this attempt cannot find out. */
  | (About & {
      readonly type: "call_in_doubt";
      readonly recordId: string;
      readonly step: string;
      readonly effect: string;
      readonly because: string;
    })
  /** An unknown was settled. */
  | (About & {
      readonly type: "settled";
      readonly recordId: string;
      readonly event: string;
      readonly actor: string;
      readonly proof: string;
    })
  /** An operator ended the time of a finished record: its key may run as new. */
  | (About & { readonly type: "forgotten"; readonly recordId: string; readonly actor: string })
  /** An operator ended the wait of a retryable record, or of an unknown one. */
  | (About & { readonly type: "retried"; readonly recordId: string; readonly actor: string })
  /** A settlement came before its record was unknown: it is kept, and used should that become so. */
  | (About & {
      readonly type: "settlement_kept";
      readonly recordId: string;
      readonly event: string;
      readonly actor: string;
    })
  /** The other side could not say yet; it is asked again. */
  | (About & {
      readonly type: "reconcile_scheduled";
      readonly recordId: string;
      readonly tries: number;
      readonly afterMs: number;
    })
  /** Asking the other side failed. */
  | (About & { readonly type: "reconcile_failed"; readonly recordId: string; readonly error: unknown })
  /** The outcome-reconciler has found out what became of an unknown. */
  | (About & { readonly type: "reconcile_resolved"; readonly recordId: string; readonly tries: number })
  /** Nothing automatic is left: the record waits for a person. */
  | (About & { readonly type: "dead_letter"; readonly recordId: string; readonly because: string })
  | (About & {
      readonly type: "commit_in_doubt";
      readonly resolved: "committed" | "rolled_back" | "in_doubt";
    })
  | (About & { readonly type: "transaction_changed" })
  | (About & {
      readonly type: "transaction_rerun";
      readonly because: "serialization" | "lost" | "commit_rolled_back" | "admission" | "batch";
    })
  | (About & { readonly type: "tx_unused" })
  /** The summary of a request could not be redacted or encoded: its record has none. */
  | (About & { readonly type: "summary_failed"; readonly error: unknown })
  | (About & { readonly type: "store_error"; readonly error: unknown })
  /** So many repeated requests and look-ups were not kept with their records: too many at once, or the store failed. */
  | { readonly type: "facts_dropped"; readonly count: number; readonly error: unknown }
  /** The store failed before the work started, and the operation says `onStoreFailure: "run-unprotected"`. */
  | (About & { readonly type: "ran_unprotected"; readonly error: unknown })
  /** The store is not asked for new requests for a while: they are refused. */
  | { readonly type: "circuit_opened"; readonly store: string }
  /** The store answers again. */
  | { readonly type: "circuit_closed"; readonly store: string }
  | {
      readonly type: "cleaned";
      readonly abandoned: number;
      readonly purged: number;
      readonly forgotten: number;
      readonly effects: number;
      readonly messages: number;
      readonly audit: number;
    }
  /** `answered`: it completed the deferred operation that waited for it. */
  | (AboutEffect & { readonly type: "effect_delivered"; readonly sends: number; readonly answered: boolean })
  | (AboutEffect & {
      readonly type: "effect_retried";
      readonly sends: number;
      readonly errorCode: string;
      readonly error: unknown;
      readonly afterMs: number;
    })
  /** Nothing automatic is left: the effect waits for a person. */
  | (AboutEffect & {
      readonly type: "effect_dead";
      readonly sends: number;
      readonly errorCode: string;
      readonly error: unknown;
    })
  /** The claim was not ended by its holder: it has lost it, or it is rescued when its lease ends. */
  | (AboutEffect & { readonly type: "effect_left"; readonly error: unknown })
  /** Claims were freed whose lease had ended. `started`: a send had begun that may have happened. */
  | { readonly type: "effects_rescued"; readonly unstarted: number; readonly started: number }
  /** A handler failed at a message, or its outcome is unknown. `failures`: of all processes so far. */
  | (AboutMessage & {
      readonly type: "message_failed";
      readonly failures: number;
      readonly errorCode: string;
      readonly error: unknown;
    })
  /** Its broker is asked to deliver it again. */
  | (AboutMessage & {
      readonly type: "message_given_back";
      readonly because: string;
      readonly afterMs: number;
    })
  /** Nothing automatic is left: the message waits for a person. */
  | (AboutMessage & { readonly type: "message_dead"; readonly because: string; readonly error: unknown })
  | { readonly type: "worker_started" }
  /** `inTime` false: something was still running when its time was over; leases end without it. */
  | { readonly type: "worker_stopped"; readonly inTime: boolean }
  | { readonly type: "service_error"; readonly service: string; readonly error: unknown };

/** Called synchronously; must not throw (what it throws is dropped: reporting never changes an outcome). */
export type EventListener = (event: LatchkeyEvent) => void;
