/** Settles a record that has just become `unknown` with a settlement that arrived earlier. */
import { guardOf, type LatchkeyRecord, type RecordKey } from "../engine/record.ts";
import type { EarlySettlement } from "../stores/early.ts";
import type { Step } from "../stores/journal.ts";
import { withLimit } from "../time/time-limit.ts";
import type { Runtime } from "./runtime.ts";

/** A caller waits: if the early settlements cannot be read in time, the lease-rescuer applies them. */
const limitMs = 5_000;

/**
 * Settles an `unknown` record of this life with the first of its early settlements that fits. False: none fits, or the store
 * failed; then the lease-rescuer tries again later.
 */
export async function settleWithEarly<Tx>(
  runtime: Runtime<Tx>,
  key: RecordKey,
  recordId: string,
): Promise<boolean> {
  if (runtime.store.early === undefined) return false;
  const settled = await withLimit(runtime.ports.clock, limitMs, () => settleFirst(runtime, key, recordId));
  return settled.kind === "returned" && settled.value;
}

async function settleFirst<Tx>(runtime: Runtime<Tx>, key: RecordKey, recordId: string): Promise<boolean> {
  const { store } = runtime;
  const all = (await store.early?.of(key, recordId)) ?? [];
  if (all.length === 0) return false;
  const { record } = await store.read(key);
  if (record?.id !== recordId || record.state !== "unknown") return false;
  const journal = await store.journal.read(key, recordId);
  const used = new Set((await store.settlement.audit(key)).map(({ id }) => id));
  for (const early of all) {
    if (used.has(early.note.id) || !fits(record, journal?.steps ?? [], early)) continue;
    if (!(await store.settlement.settle(key, guardOf(record), early.settlement, early.note))) continue;
    const about = { ...runtime.about(record.operation, key), recordId };
    const { actor, proof } = early.note;
    runtime.emit({ ...about, type: "settled", event: early.settlement.event, actor, proof });
    return true;
  }
  return false;
}

/**
 * Whether the settlement applies to what is in doubt now. A settlement of one call fits while that generation of the call is in
 * doubt. `settle_completed` always fits; every other settlement fits only the attempt during which it arrived.
 */
function fits(
  record: LatchkeyRecord,
  steps: readonly Step[],
  { call, settlement, attempt }: EarlySettlement,
) {
  if (call === null) return settlement.event === "settle_completed" || attempt === record.fence.attempt;
  return steps.some(
    (step) =>
      step.kind === "call" &&
      step.state === "started" &&
      step.name === call.name &&
      step.generation === call.generation,
  );
}
