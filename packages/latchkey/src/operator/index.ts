/** Module `latchkey/operator`: what waits and why, and what operators do about it. */
export type { ClientsName, RecordName } from "../execution/find-record.ts";
export type { Action, Choice } from "./advice.ts";
export type { DeletedTenant, DeleteTenantOptions, TenantCounts, TenantHoldings } from "./delete-tenant.ts";
export type { ForgetOptions, Hastened, RetryOptions } from "./hasten.ts";
export type { Inspected } from "./inspect.ts";
export {
  createOperator,
  type DeadDecision,
  type DecidedDead,
  type Every,
  type Operator,
  type OperatorOptions,
} from "./operator.ts";
export {
  ageBoundsMs,
  type Cause,
  type Census,
  type Page,
  type PageRequest,
  type QueueFilter,
} from "./queues.ts";
export type { Readable, ShownAnswer, ShownBody } from "./readable.ts";
export type { RecordReport } from "./report.ts";
export type { Outcome, Refused, SeenRecord, Settled } from "./settle.ts";
export type {
  AuditLogView,
  AuditView,
  DeadEffectView,
  EffectPiecesView,
  EffectView,
  FactsView,
  MessageView,
  RecordView,
  ShownPayload,
  StepView,
} from "./views.ts";
