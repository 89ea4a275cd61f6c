/** Settles an unknown record that an operator has looked at, or explains why not. */
import type { LatchkeyRecord } from "../engine/record.ts";
import type { OperatorProof, SettleResult, SettleWith } from "../execution/settle.ts";
import type { Latchkey } from "../latchkey.ts";
import type { RunAnswer } from "../operations/owned-work.ts";
import type { Settlement } from "../stores/settlement.ts";
import { retryStoreCall } from "../time/retry-until.ts";
import { whatHappensNext } from "./advice.ts";
import { type AuditView, auditView, type RecordView, recordView } from "./views.ts";

/** One life of a key as the operator saw it, so that the settlement does not apply to a doubt that arose later. */
export interface SeenRecord {
  readonly recordId: string;
  readonly attempt: number;
}

/** The outcome that the operator found out. */
export type Outcome =
  /** The call in doubt has happened, with this result (JSON). */
  | {
      readonly outcome: "call";
      readonly call: string;
      readonly downstreamKey: string;
      readonly result: unknown;
    }
  /** It has not happened and no longer can, with the proof. */
  | {
      readonly outcome: "not-executed";
      readonly proof: "operator" | "closed-downstream" | "downstream-deduplicates";
      /** The key of the call in doubt; null if there is none. */
      readonly downstreamKey: string | null;
    }
  /** All of it has happened, or it did not and will not: retries get this answer. */
  | { readonly outcome: "completed" | "failed"; readonly answer: RunAnswer };

export type Settled =
  | {
      readonly kind: "settled";
      readonly audit: AuditView | null;
      /** The record now; null: it has continued and was released. */
      readonly record: RecordView | null;
      readonly next: readonly string[];
    }
  | Refused;

/** Nothing was changed. */
export interface Refused {
  readonly kind: "refused";
  /** What did not happen, and who or what prevented it. */
  readonly title: string;
  /** Details, and the current state. */
  readonly detail: string;
  readonly record: RecordView | null;
}

type Settler<Tx> = Pick<Latchkey<Tx>, "runtime" | "settle">;

const events: Readonly<Record<Outcome["outcome"], Settlement["event"]>> = {
  call: "settle_call",
  "not-executed": "settle_not_executed",
  completed: "settle_completed",
  failed: "settle_failed",
};

/** @throws {StoreError} when the store could not be used; settling again is harmless. */
export async function settleSeen<Tx>(
  latchkey: Settler<Tx>,
  seen: SeenRecord,
  outcome: Outcome,
  by: OperatorProof,
): Promise<Settled> {
  const record = await readLife(latchkey, seen.recordId);
  if (record === null) return gone();
  const repeated = await ownAudit(latchkey, record, outcome, by);
  if (record.state !== "unknown") {
    return repeated === null ? notUnknown(latchkey, record) : settled(latchkey, record.id, repeated);
  }
  if (record.fence.attempt !== seen.attempt || repeated !== null) return unknownAgain(record);
  try {
    const settlement = settlementOf(outcome, by);
    const result = await retryStoreCall(latchkey.runtime.ports, () =>
      latchkey.settle({ recordId: record.id }, settlement, by),
    );
    return await resultOf(latchkey, record, result, outcome, by);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return { kind: "refused", title: "Not settled.", detail: error.message, record: recordView(record) };
  }
}

async function readLife<Tx>({ runtime }: Settler<Tx>, recordId: string): Promise<LatchkeyRecord | null> {
  return (await runtime.store.readById(null, recordId)).record;
}

function settlementOf(outcome: Outcome, by: OperatorProof): SettleWith {
  switch (outcome.outcome) {
    case "call": {
      const { call, downstreamKey, result } = outcome;
      return { call, downstreamKey, result };
    }
    case "not-executed": {
      const { proof, downstreamKey } = outcome;
      const notExecuted = proof === "operator" ? by : proof;
      return { notExecuted, ...(downstreamKey !== null && { downstreamKey }) };
    }
    case "completed":
      return { completed: outcome.answer };
    case "failed":
      return { failed: outcome.answer };
    default:
      return outcome satisfies never;
  }
}

async function resultOf<Tx>(
  latchkey: Settler<Tx>,
  before: LatchkeyRecord,
  result: SettleResult,
  outcome: Outcome,
  by: OperatorProof,
): Promise<Settled> {
  const record = await readLife(latchkey, before.id);
  switch (result.kind) {
    case "settled":
      return settled(latchkey, before.id, await ownAudit(latchkey, before, outcome, by));
    case "kept":
      return {
        kind: "refused",
        title: "Not settled yet.",
        detail:
          "An attempt is running. Your settlement is stored, and applies if the record becomes unknown again; otherwise it is dropped.",
        record: record && recordView(record),
      };
    case "not_unknown":
    case "already_delivered":
      return record === null ? gone() : notUnknown(latchkey, record);
    case "unknown_again":
      return record === null ? gone() : unknownAgain(record);
    case "no_such_call":
    case "other_life":
    case "not_found":
      return record === null ? gone() : noSuchCall(record);
    default:
      return result satisfies never;
  }
}

/** The audit row of this settlement, if it was made. */
async function ownAudit<Tx>(
  { runtime }: Settler<Tx>,
  { id, tenant, scope, key }: LatchkeyRecord,
  outcome: Outcome,
  { operator, reason }: OperatorProof,
): Promise<AuditView | null> {
  const entries = await runtime.store.settlement.audit({ tenant, scope, key });
  const own = entries.filter(
    (entry) =>
      entry.recordId === id &&
      entry.effectId === null &&
      entry.event === events[outcome.outcome] &&
      entry.actor === operator &&
      entry.reason === reason,
  );
  const last = own.at(-1);
  return last === undefined ? null : auditView(last);
}

async function settled<Tx>(
  { runtime }: Settler<Tx>,
  recordId: string,
  audit: AuditView | null,
): Promise<Settled> {
  const { record, now } = await runtime.store.readById(null, recordId);
  const next = record === null ? [] : whatHappensNext(record, now);
  return { kind: "settled", audit, record: record && recordView(record), next };
}

function gone(): Refused {
  return {
    kind: "refused",
    title: "Not settled. The record no longer exists.",
    detail: "It was released because nothing happened, was forgotten, or its key has a new life.",
    record: null,
  };
}

function noSuchCall(record: LatchkeyRecord): Refused {
  return {
    kind: "refused",
    title: "Not settled. The call that you looked at is no longer in doubt.",
    detail: "You changed nothing. Look at the record again.",
    record: recordView(record),
  };
}

function unknownAgain(record: LatchkeyRecord): Refused {
  return {
    kind: "refused",
    title: "Not settled. It continued in the meantime and has become unknown again.",
    detail:
      "What you know of the earlier doubt may not apply to this one. You changed nothing. Look at the record again, and settle it with a new reason.",
    record: recordView(record),
  };
}

/** Names who was faster, if the audit shows it. */
async function notUnknown<Tx>({ runtime }: Settler<Tx>, record: LatchkeyRecord): Promise<Refused> {
  const { tenant, scope, key, id } = record;
  const entries = await runtime.store.settlement.audit({ tenant, scope, key });
  const last = entries.filter(({ recordId, effectId }) => recordId === id && effectId === null).at(-1);
  const state = record.state.replace("_", " ");
  if (last === undefined) {
    return {
      kind: "refused",
      title: `Not settled. The record is now ${state}.`,
      detail: "Only an unknown record can be settled. You changed nothing.",
      record: recordView(record),
    };
  }
  const at = new Date(last.at).toISOString().slice(11, 19);
  return {
    kind: "refused",
    title: `Not settled. ${last.actor} was faster.`,
    detail: `At ${at} ${last.actor} settled it: ${last.from} → ${last.to}. The record is ${state} now. You changed nothing.`,
    record: recordView(record),
  };
}
