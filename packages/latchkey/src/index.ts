export type { Answer } from "./attempt/answer.ts";
export type {
  Attempt,
  Enqueue,
  Enqueued,
  EnqueueOptions,
  EnqueuingAttempt,
  HandlerContext,
  Result,
  Submission,
  Work,
} from "./attempt/attempt.ts";
export type {
  DeferredAttempt,
  LookedUp,
  Lookup,
  LookupQuestion,
  OwnAttempt,
  Run,
  RunAnswer,
  StepAttempt,
} from "./attempt/own-work.ts";
export type { OwnedRunRequest, OwnedRunResult, RunRequest, RunResult } from "./attempt/run-function.ts";
export type { Codec, CodecContext, CodecPart } from "./codec.ts";
export type { LedgerCall, LedgerComparison, LedgerObject, LedgerReport } from "./compare-ledger.ts";
export { defineConfig, type LatchkeyConfig } from "./config.ts";
export type {
  Closed,
  Deduplication,
  Delivered,
  DeliveryOptions,
  Effect,
  EffectCall,
  EffectLimits,
  EffectOptions,
  Found,
  RetryOptions,
} from "./effects/effect.ts";
export type { DirectExecution, Execution, ServerErrors } from "./engine/classify.ts";
export type { Fence, LatchkeyRecord, RecordKey, RecordState } from "./engine/record.ts";
export {
  type Certainty,
  EffectRefused,
  type EffectRefusedOptions,
  type ErrorCode,
  errorCodes,
  isLatchkeyError,
  LatchkeyError,
  MessageRefused,
  NotExecuted,
  StoreError,
} from "./errors.ts";
export type {
  HttpFingerprint,
  HttpOptions,
  HttpSettings,
  RouteOptions,
  TenantFunction,
} from "./http/http-options.ts";
export type { Problem, RenderedProblem, StripeError, StripeErrorType } from "./http/problem.ts";
export type { RequestAge } from "./http/request-age.ts";
export { createLatchkey, type Latchkey, type LatchkeyOptions } from "./latchkey.ts";
export { type DispatchReport, effectDispatcher } from "./maintenance/effect-dispatcher.ts";
export { leaseRescuer, type RescueReport } from "./maintenance/lease-rescuer.ts";
export {
  outcomeReconciler,
  type ReconcileReport,
  type ReconcilerOptions,
} from "./maintenance/outcome-reconciler.ts";
export { recordCleaner } from "./maintenance/record-cleaner.ts";
export type { Service, ServiceHealth, ServiceOptions } from "./maintenance/service.ts";
export type { Worker, WorkerHealth, WorkerOptions } from "./maintenance/worker.ts";
export type {
  ConsumerCounts,
  GiveBackReason,
  Message,
  MessageConsumer,
  MessageDeath,
  Verdict,
} from "./messages/broker.ts";
export {
  type DeadMessage,
  type DeadMessageFilter,
  type DeadMessages,
  deadMessages,
  type RedrivenMessage,
  type Republish,
} from "./messages/dead-messages.ts";
export { createInbox, type Inbox, type InboxOptions, type MessageHandler } from "./messages/inbox.ts";
export type { Operation, OperationOptions } from "./operation.ts";
export type { InputOf, OwnedOperation, OwnedOperationOptions } from "./owned-operation.ts";
export { ietf } from "./policies/ietf.ts";
export type { Policy, ProblemCode } from "./policies/policy.ts";
export { stripe } from "./policies/stripe.ts";
export type { Clock, Ports, Random } from "./ports.ts";
export type { CircuitOptions } from "./resilience/circuit.ts";
export type { Limits, RateLimiter } from "./resilience/limits.ts";
export type {
  NotExecutedProof,
  OperatorProof,
  SettledBy,
  SettleResult,
  SettleTarget,
  SettleWith,
} from "./settle.ts";
export type { IsolationLevel, Store, StoreCapabilities } from "./stores/store.ts";
export type { EventListener, LatchkeyEvent } from "./telemetry/events.ts";
