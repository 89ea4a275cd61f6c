/** The events that Latchkey reports. Keys appear only as keyed hashes. */

import type { Execution } from "../engine/classify.ts";

/** The key that an event is about. */
export interface About {
  readonly operation: string;
  readonly tenant: string;
  /** Prefix of a keyed hash of (tenant, scope, key). */
  readonly keyHash: string;
}

/** The effect that an event of the outbox is about. */
export interface AboutEffect extends About {
  readonly recordId: string;
  /** The name of its definition. */
  readonly effect: string;
  readonly effectId: string;
}

/** The message that an event is about; tenant and key are empty if the message has none. */
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
  /** A request for deferred work was answered: the record waits for a worker, runs in one, or will be resumed. */
  | (About & { readonly type: "accepted"; readonly recordId: string })
  | (About & { readonly type: "key_misuse"; readonly because: "fingerprint" | "principal" | "operation" })
  /** A request was refused because the outcome of its key is unknown. */
  | (About & { readonly type: "unknown"; readonly recordId: string })
  | (About & { readonly type: "expired" })
  | (About & { readonly type: "too_many_keys"; readonly because: "newKeys" | "lookups" | "activeKeys" })
  /** A rate limiter failed; the request continued. */
  | (About & {
      readonly type: "limiter_error";
      readonly limit: "newKeys" | "lookups";
      readonly error: unknown;
    })
  /** A new key's record was written before its work: under a lease, or for a worker (`execution: "deferred"`). */
  | (About & { readonly type: "reserved"; readonly recordId: string; readonly by: "lease" | "deferred" })
  /** A worker claimed a deferred request. */
  | (About & { readonly type: "claimed"; readonly recordId: string; readonly attempt: number })
  /** An attempt took over a record whose owner was dead, or which was to be retried. */
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
  /** An attempt ended and another can continue it. `resumeAfterMs`: when a worker does; null: the next request does. */
  | (About & {
      readonly type: "retryable";
      readonly recordId: string;
      readonly errorCode: string;
      readonly resumeAfterMs: number | null;
    })
  /** The outcome of an attempt is not known; its record is `unknown` until it is settled. */
  | (About & { readonly type: "became_unknown"; readonly recordId: string; readonly because: string })
  /** An attempt ended without leaving a record. */
  | (About & { readonly type: "released"; readonly recordId: string })
  /** The handler threw, or made a mistake without consequences, such as answering twice. */
  | (About & { readonly type: "attempt_failed"; readonly recordId: string; readonly error: unknown })
  | (About & { readonly type: "lease_lost"; readonly recordId: string })
  /** The lease rescuer or a request settled a dead attempt as `unknown`. */
  | (About & { readonly type: "lease_rescued"; readonly recordId: string; readonly because: string })
  /** An attempt continues after the last finished step. */
  | (About & {
      readonly type: "attempt_resumed";
      readonly recordId: string;
      readonly attempt: number;
      readonly by: "request" | "worker";
      readonly recoveryPoint: string | null;
    })
  /** A finished step returned its stored result without running. */
  | (About & { readonly type: "step_resumed"; readonly recordId: string; readonly step: string })
  /** A call may have happened, and this attempt cannot determine whether it did. */
  | (About & {
      readonly type: "call_in_doubt";
      readonly recordId: string;
      readonly step: string;
      readonly effect: string;
      readonly because: string;
    })
  /** An unknown outcome was settled. */
  | (About & {
      readonly type: "settled";
      readonly recordId: string;
      readonly event: string;
      readonly actor: string;
      readonly proof: string;
    })
  /** An operator expired a finished record: its key may run as new. */
  | (About & { readonly type: "forgotten"; readonly recordId: string; readonly actor: string })
  /** An operator ended the wait of a retryable or unknown record. */
  | (About & { readonly type: "retried"; readonly recordId: string; readonly actor: string })
  /** A settlement arrived before its record was unknown: it is kept, and used if the record becomes unknown. */
  | (About & {
      readonly type: "settlement_kept";
      readonly recordId: string;
      readonly event: string;
      readonly actor: string;
    })
  /** The provider did not know the outcome yet; the look-up will be repeated. */
  | (About & {
      readonly type: "reconcile_scheduled";
      readonly recordId: string;
      readonly tries: number;
      readonly afterMs: number;
    })
  /** A look-up at the provider failed. */
  | (About & { readonly type: "reconcile_failed"; readonly recordId: string; readonly error: unknown })
  /** The outcome reconciler determined an unknown outcome. */
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
  /** The summary of a request could not be redacted or encoded, so its record has none. */
  | (About & { readonly type: "summary_failed"; readonly error: unknown })
  | (About & { readonly type: "store_error"; readonly error: unknown })
  /** `count` repeated requests and look-ups were not stored with their records: too many at once, or the store failed. */
  | { readonly type: "facts_dropped"; readonly count: number; readonly error: unknown }
  /** The store failed before the work started, and the operation says `onStoreFailure: "run-unprotected"`. */
  | (About & { readonly type: "ran_unprotected"; readonly error: unknown })
  /** New requests are refused for a while without calling the store. */
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
  /** `answered`: the delivery completed the deferred operation that waited for it. */
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
  /** The holder of a claim did not end it: the claim was lost, or will be rescued when its lease ends. */
  | (AboutEffect & { readonly type: "effect_left"; readonly error: unknown })
  /** Claims whose lease had ended were freed. `started`: those whose send had begun and may have happened. */
  | { readonly type: "effects_rescued"; readonly unstarted: number; readonly started: number }
  /** A message's handler failed, or its outcome is unknown. `failures`: the count over all processes so far. */
  | (AboutMessage & {
      readonly type: "message_failed";
      readonly failures: number;
      readonly errorCode: string;
      readonly error: unknown;
    })
  /** The broker is asked to deliver the message again. */
  | (AboutMessage & {
      readonly type: "message_given_back";
      readonly because: string;
      readonly afterMs: number;
    })
  /** Nothing automatic is left: the message waits for a person. */
  | (AboutMessage & { readonly type: "message_dead"; readonly because: string; readonly error: unknown })
  | { readonly type: "worker_started" }
  /** `inTime` false: work was still running when the time limit passed; its leases will expire. */
  | { readonly type: "worker_stopped"; readonly inTime: boolean }
  | { readonly type: "service_error"; readonly service: string; readonly error: unknown };

/** Called synchronously. Must not throw; errors are dropped, because reporting never changes an outcome. */
export type EventListener = (event: LatchkeyEvent) => void;
