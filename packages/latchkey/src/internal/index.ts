/** Internals that `latchkey-conformance` of the same version needs. Do not import this from anywhere else: it changes without notice. */
export { decide } from "../engine/decide.ts";
export {
  type Fingerprint,
  type Guard,
  guardOf,
  type InProgressRecord,
  type PendingRecord,
  type UnknownRecord,
} from "../engine/record.ts";
export { leaseTerms } from "../execution/lease/admit-lease.ts";
export { overviewOf } from "../execution/overview.ts";
export { runClaimed } from "../execution/steps/execute-owned.ts";
export { parseHttpDate } from "../http/protocol/http-date.ts";
export { pause } from "../ports.ts";
export type { Archival, ForgottenRecord } from "../stores/archival.ts";
export type { EarlySettlement } from "../stores/early.ts";
export type { FactGroup, FactKind, FactSupport } from "../stores/facts.ts";
export type { Hint, HintSupport } from "../stores/hints.ts";
export type {
  CallEnd,
  CallIntent,
  CallStep,
  FinishedCallsQuery,
  Journal,
  JournalCall,
  Owner,
  Step,
} from "../stores/journal.ts";
export type { NewLife, Summaries } from "../stores/life.ts";
export type {
  MessageCount,
  MessageFacts,
  MessageFilter,
  MessageLetter,
  MessageSupport,
  MessageTally,
} from "../stores/messages.ts";
export type {
  DeadNote,
  DeadVerdict,
  DeliveryEnd,
  EffectClaim,
  EffectFilter,
  EffectState,
  EffectWant,
  NewEffect,
  OutboxEffect,
  OutboxRescue,
  OutboxSupport,
} from "../stores/outbox.ts";
export type { AuditEntry, AuditFilter, AuditNote, RecordFilter, Settlement } from "../stores/settlement.ts";
export type { AttemptEnd, LeaseTerms, PendingWant, Retention } from "../stores/store.ts";
export {
  type TenantData,
  type TenantPage,
  type TenantPart,
  type TenantRemoval,
  tenantParts,
} from "../stores/tenant-data.ts";
export type {
  BatchOutcome,
  BatchWork,
  DeliveryRequest,
  DeliveryWork,
  OpenBatch,
  OpenPhase,
  OpenTransaction,
  OptimisticTransaction,
  PhaseRequest,
  PhaseWork,
  TransactionOutcome,
  TransactionPart,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../stores/transactions.ts";
