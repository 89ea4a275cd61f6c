/** Phases of the memory store. A commit is one step: guard, step, record and rows. */
import { StoreError } from "../../errors.ts";
import type { PhaseStep } from "../journal.ts";
import type { PhaseOutcome, PhaseWork, TransactionSupport } from "../transactions.ts";
import { enqueue } from "./effects.ts";
import { type OwnedRow, ownedRow, withStep, writeStep } from "./journal.ts";
import { finished, lifeOf, move } from "./life.ts";
import { idleRefusal, type MemoryState, openBuffer } from "./open-buffer.ts";
import type { MemoryRows } from "./rows.ts";
import type { MemoryTransaction, WriteBuffer } from "./tables.ts";

type CommitWork<T> = Extract<PhaseWork<T>, { readonly end: "commit" }>;

/** An open phase locks nothing: neither the record nor the lease. */
export function memoryPhase(state: MemoryState): TransactionSupport<MemoryTransaction>["phase"] {
  return async (request, work) => {
    const { buffer, close } = openBuffer(state, request.idleLimitMs);
    try {
      const result = await work({
        tx: buffer.tx,
        used: () => buffer.used,
        revoke: () => buffer.revoke(),
      });
      if (result.end !== "commit") return { kind: "rolled_back", value: result.value };
      const row = ownedRow(state.rows, request.owner);
      return finish(state, row, buffer, result);
    } finally {
      close();
    }
  };
}

function finish<T>(
  { rows, effects, now }: MemoryState,
  row: OwnedRow | null,
  buffer: WriteBuffer,
  work: CommitWork<T>,
): PhaseOutcome<T> {
  const { value } = work;
  if (buffer.endedByStore) return idleRefusal(value);
  if (row === null) return { kind: "lost", value };
  if (row.life.steps.some(({ name }) => name === work.step.name)) {
    const error = new StoreError("rolled_back", { message: `Step ${work.step.name} is there already` });
    return { kind: "refused", value, because: "other", error };
  }
  const expiresAt = commit(rows, row, work, now());
  buffer.apply();
  enqueue(effects, row.record, work.effects, now());
  return { kind: "committed", value, expiresAt };
}

function commit<T>(rows: MemoryRows, row: OwnedRow, work: CommitWork<T>, now: number): number | null {
  const { completes } = work;
  const { name, position, version, result } = work.step;
  const step: PhaseStep = { kind: "phase", name, position, version, result, finishedAt: now };
  if (completes === null) {
    writeStep(rows, row, step, name);
    return null;
  }
  const { record, life } = row;
  const state = move(record.state, "complete", "completed");
  const ending = { ...completes, errorCode: null };
  const done = finished(lifeOf(record, record.createdAt), state, ending, now);
  return rows.put(done, { steps: withStep(life.steps, step), recoveryPoint: name }).expiresAt;
}
