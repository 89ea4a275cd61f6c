/** Settling the unknown that a person has looked at, and saying why where it is refused. */
import type { LatchkeyRecord } from "../engine/record.ts";
import type { OperatorProof, SettleResult, SettleWith } from "../execution/settle.ts";
import type { Latchkey } from "../latchkey.ts";
import type { RunAnswer } from "../operations/owned-work.ts";
import type { Settlement } from "../stores/settlement.ts";
import { whatHappensNext } from "./advice.ts";
import { surely } from "./surely.ts";
import { type AuditView, auditView, type RecordView, recordView } from "./views.ts";

/** One life of a key as it was seen: what is said of it is not said of a doubt that came up later. */
export interface SeenRecord {
  readonly recordId: string;
  readonly attempt: number;
}

/** What became of it, as a person found out. */
export type Outcome =
  /** The call in doubt has happened, with this result (JSON). */
  | {
      readonly outcome: "call";
      readonly call: string;
      readonly downstreamKey: string;
      readonly result: unknown;
    }
  /** It has not happened and no longer can; how that is known. */
  | {
      readonly outcome: "not-executed";
      readonly proof: "operator" | "closed-downstream" | "downstream-deduplicates";
      /** Of the call in doubt; null where none is. */
      readonly downstreamKey: string | null;
    }
  /** All of it has happened, or it stays undone: retries get this answer. */
  | { readonly outcome: "completed" | "failed"; readonly answer: RunAnswer };

export type Settled =
  | {
      readonly kind: "settled";
      readonly audit: AuditView | null;
      /** As it is by now; null: it has gone on and was released. */
      readonly record: RecordView | null;
      readonly next: readonly string[];
    }
  | Refused;

/** Nothing was changed. */
export interface Refused {
  readonly kind: "refused";
  /** What did not happen, and who or what was in the way. */
  readonly title: string;
  /** When, and what is true now. */
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
  const { clock } = latchkey.runtime.ports;
  const record = await readLife(latchkey, seen.recordId);
  if (record === null) return gone();
  const repeated = await ownAudit(latchkey, record, outcome, by);
  if (record.state !== "unknown") {
    return repeated === null ? notUnknown(latchkey, record) : settled(latchkey, record.id, repeated);
  }
  if (record.fence.attempt !== seen.attempt || repeated !== null) return unknownAgain(record);
  try {
    const settlement = settlementOf(outcome, by);
    const result = await surely(clock, () => latchkey.settle({ recordId: record.id }, settlement, by));
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
          "Its attempt goes on by now. What you said is kept, and settles the record should it become unknown again; otherwise it is dropped.",
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

/** The audit row of this very settlement, where it was made. */
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
    title: "Not settled. The record is not there any more.",
    detail: "It was released because nothing happened, was forgotten, or its key has another life by now.",
    record: null,
  };
}

function noSuchCall(record: LatchkeyRecord): Refused {
  return {
    kind: "refused",
    title: "Not settled. The call that you looked at is not in doubt any more.",
    detail: "Nothing of yours was changed. Look at the record again.",
    record: recordView(record),
  };
}

function unknownAgain(record: LatchkeyRecord): Refused {
  return {
    kind: "refused",
    title: "Not settled. It went on meanwhile and has become unknown again.",
    detail:
      "What was known of the earlier doubt need not hold for this one. Nothing of yours was changed. Look at the record again, and settle it with a new reason.",
    record: recordView(record),
  };
}

/** Names who was faster, where the audit says. */
async function notUnknown<Tx>({ runtime }: Settler<Tx>, record: LatchkeyRecord): Promise<Refused> {
  const { tenant, scope, key, id } = record;
  const entries = await runtime.store.settlement.audit({ tenant, scope, key });
  const last = entries.filter(({ recordId, effectId }) => recordId === id && effectId === null).at(-1);
  const state = record.state.replace("_", " ");
  if (last === undefined) {
    return {
      kind: "refused",
      title: `Not settled. The record is ${state} by now.`,
      detail: "Only what is unknown can be settled. Nothing of yours was changed.",
      record: recordView(record),
    };
  }
  const at = new Date(last.at).toISOString().slice(11, 19);
  return {
    kind: "refused",
    title: `Not settled. ${last.actor} was faster.`,
    detail: `At ${at} ${last.actor} settled it: ${last.from} → ${last.to}. The record is ${state} now. Nothing of yours was changed.`,
    record: recordView(record),
  };
}
