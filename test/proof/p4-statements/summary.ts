/** What is left in the end, in one form for Postgres and for the model. */
import type { LatchkeyRecord, RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { BusinessRow } from "../../../packages/latchkey/src/stores/memory.ts";
import type { EffectState } from "../../../packages/latchkey/src/stores/outbox.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import type { Seen } from "./seen.ts";

/** Where the model is looked at. */
export interface Watched {
  readonly keys: readonly RecordKey[];
}

interface Times {
  readonly state: string;
  readonly expiresAt: number | null;
  readonly forgetAt: number | null;
}

/**
 * The state that a record counts as, whether or not the record-cleaner has come by. Null: it is forgotten. Admission
 * judges it like this, so nobody can tell the difference.
 */
function agedState({ state, expiresAt, forgetAt }: Times, nowMs: number): string | null {
  if (forgetAt !== null && forgetAt <= nowMs) return null;
  const isOver = expiresAt !== null && expiresAt <= nowMs;
  if (state === "pending" && isOver) return "failed";
  return (state === "completed" || state === "failed") && isOver ? "expired" : state;
}

const states: readonly EffectState[] = ["pending", "claimed", "started", "delivered", "dead"];

export async function summaryOfModel(store: Store<unknown>, { keys }: Watched): Promise<string> {
  const lines: string[] = [];
  for (const key of keys) {
    const { record, now } = await store.read(key);
    const line = record === null ? null : recordLine(key.key, record, now);
    if (record === null || line === null) continue;
    lines.push(line);
    const journal = await store.journal.read(key, record.id);
    for (const step of journal?.steps ?? []) {
      const state = step.kind === "phase" ? "finished" : step.state;
      lines.push(`step ${record.id} ${step.name} ${state}`);
    }
  }
  for (const key of keys) {
    for (const { event } of await store.settlement.audit(key)) lines.push(`audit ${event}`);
  }
  const filter = { effect: null, tenant: null, limit: 100, after: null };
  for (const state of states) {
    for (const effect of (await store.outbox?.list({ ...filter, state })) ?? []) {
      const { fence } = effect;
      lines.push(
        `effect ${effect.id} ${effect.state} ${fence.attempt} ${fence.token} ${effect.sends} ${effect.returns}`,
      );
    }
  }
  const rows = "rows" in store ? (store.rows as (table: string) => readonly BusinessRow[])("business") : [];
  for (const { key, life, by } of rows) lines.push(`row ${key} ${life} ${by}`);
  return lines.toSorted().join("; ");
}

function recordLine(key: string, record: LatchkeyRecord, nowMs: number): string | null {
  const { id, fence } = record;
  const state = agedState(
    {
      state: record.state,
      expiresAt: "expiresAt" in record ? record.expiresAt : null,
      forgetAt: "forgetAt" in record ? record.forgetAt : null,
    },
    nowMs,
  );
  if (state === null) return null;
  const parts = [key, id, state, String(fence.attempt), fence.token];
  if (state === "completed" || state === "failed") {
    const answer =
      "answer" in record && record.answer !== null ? Buffer.from(record.answer).toString("hex") : "";
    parts.push(answer);
  }
  if (state === "completed" && "expiresAt" in record) parts.push(String(record.expiresAt));
  if (record.state === "in_progress") parts.push(String(record.leaseEndsAt), String(record.expiresAt));
  return `record ${parts.join(" ")}`;
}

export function summaryOfSeen(
  { records, leases, steps, effects, business, audits }: Seen,
  nowMs: number,
): string {
  const live = records.flatMap((record) => {
    const times = { state: record.state, expiresAt: record.expires_at, forgetAt: record.forget_at };
    const state = agedState(times, nowMs);
    return state === null ? [] : [{ record, state }];
  });
  const lines = live.map(({ record, state }) => {
    const { key, id, attempt, token } = record;
    const parts = [key, id, state, String(attempt), token];
    if (state === "completed" || state === "failed") parts.push(record.answer ?? "");
    if (state === "completed") parts.push(String(record.expires_at));
    const lease = leases.find((one) => one.record_id === id && one.token === token);
    if (state === "in_progress") parts.push(String(lease?.locked_until), String(record.expires_at));
    return `record ${parts.join(" ")}`;
  });
  const ids = new Set(live.map(({ record }) => record.id));
  for (const { record_id, name, state } of steps) {
    if (ids.has(record_id)) lines.push(`step ${record_id} ${name} ${state}`);
  }
  for (const { event } of audits) lines.push(`audit ${event}`);
  for (const { id, state, started, attempt, token, sends, returns } of effects) {
    const shown = state === "claimed" && started ? "started" : state;
    lines.push(`effect ${id} ${shown} ${attempt} ${token ?? ""} ${sends} ${returns}`);
  }
  for (const { key, life, by } of business) lines.push(`row ${key} ${life} ${by}`);
  return lines.toSorted().join("; ");
}
