export type { Codec, CodecContext, CodecPart } from "./codec.ts";
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
  ToolCallRefused,
  type ToolCallRefusedOptions,
} from "./errors.ts";
export type { CallsName, ClientsName, LifeName, LifesName } from "./execution/find-record.ts";
export type { CloseOptions } from "./execution/lifecycle.ts";
export type { OverviewOptions } from "./execution/overview.ts";
export type { OwnedRunRequest, OwnedRunResult, RunRequest, RunResult } from "./execution/run-function.ts";
export type {
  NotExecutedProof,
  OperatorProof,
  SettledBy,
  SettleResult,
  SettleTarget,
  SettleWith,
} from "./execution/settle.ts";
export type {
  HttpFingerprint,
  HttpOptions,
  HttpSettings,
  RouteOptions,
  TenantFunction,
} from "./http/protocol/http-options.ts";
export type { Problem, RenderedProblem, StripeError, StripeErrorType } from "./http/protocol/problem.ts";
export type { RequestAge } from "./http/protocol/request-age.ts";
export { createLatchkey, type Latchkey, type LatchkeyOptions } from "./latchkey.ts";
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
export type { Answer } from "./operations/answer.ts";
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
} from "./operations/attempt.ts";
export type { Limits, RateLimiter } from "./operations/limits.ts";
export type { Operation, OperationOptions } from "./operations/operation.ts";
export type { InputOf, OwnedOperation, OwnedOperationOptions } from "./operations/owned-operation.ts";
export type {
  DeferredAttempt,
  LookedUp,
  Lookup,
  LookupQuestion,
  OwnAttempt,
  Run,
  RunAnswer,
  StepAttempt,
} from "./operations/owned-work.ts";
export { acp } from "./operations/policies/acp.ts";
export { ietf } from "./operations/policies/ietf.ts";
export type { Policy, ProblemCode } from "./operations/policies/policy.ts";
export { stripe } from "./operations/policies/stripe.ts";
export { ucp } from "./operations/policies/ucp.ts";
export type { Redact, RequestSummary, StoredValue, SummaryOptions } from "./operations/summary.ts";
export { type Clock, type Ports, type Random, systemPorts, type TimerKind } from "./ports.ts";
export type {
  BridgeOutcome,
  BridgeRequest,
  BridgeSession,
  BridgeWork,
  IsolationLevel,
  SqlRow,
  SqlStatement,
  SqlValue,
  TransactionBridge,
} from "./sql/transaction.ts";
export type { Archive, ArchiveContext, ForgottenRecord } from "./stores/archival.ts";
export type { Depth, Overview } from "./stores/overview.ts";
export type { Store, StoreCapabilities } from "./stores/store.ts";
export type { EventListener, LatchkeyEvent } from "./telemetry/events.ts";
export type { SpanAttributes, SpanStart, TraceSpan, Tracing } from "./telemetry/tracing.ts";
export type { CircuitOptions } from "./time/circuit-breaker.ts";
export type { LedgerCall, LedgerComparison, LedgerObject, LedgerReport } from "./workers/compare-ledger.ts";
export { type DispatchReport, effectDispatcher } from "./workers/effect-dispatcher.ts";
export { leaseRescuer, type RescueReport } from "./workers/lease-rescuer.ts";
export {
  outcomeReconciler,
  type ReconcileReport,
  type ReconcilerOptions,
} from "./workers/outcome-reconciler.ts";
export { type CleanerOptions, type CleanerReport, recordCleaner } from "./workers/record-cleaner.ts";
export type { Service, ServiceHealth, ServiceOptions } from "./workers/service.ts";
export { WorkFailed, type WorkOptions, type WorkReport } from "./workers/work.ts";
export type { Worker, WorkerHealth, WorkerOptions } from "./workers/worker.ts";
