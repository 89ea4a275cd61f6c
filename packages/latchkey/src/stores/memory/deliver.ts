/** The end of a delivery in the memory store. A commit is one step: claim, effect, record and rows. */
import type { FinishedRecord } from "../../engine/record.ts";
import type { DeliveryOutcome, DeliveryRequest, DeliveryWork, TransactionSupport } from "../transactions.ts";
import { finished, lifeOf, move } from "./life.ts";
import { idleRefusal, type MemoryState, openBuffer } from "./open-buffer.ts";
import { claimedRow, deliveredRow } from "./outbox-ends.ts";
import { guardHolds, type MemoryRows } from "./rows.ts";
import type { MemoryTransaction, WriteBuffer } from "./tables.ts";

type CommitWork<T> = Extract<DeliveryWork<T>, { readonly end: "commit" }>;
type Answers = NonNullable<CommitWork<unknown>["answers"]>;

export function memoryDeliver(state: MemoryState): TransactionSupport<MemoryTransaction>["deliver"] {
  return async (request, work) => {
    const { buffer, close } = openBuffer(state, request.idleLimitMs);
    try {
      const result = await work({
        tx: buffer.tx,
        used: () => buffer.used,
        revoke: () => buffer.revoke(),
      });
      if (result.end !== "commit") return { kind: "rolled_back", value: result.value };
      return finish(state, request, buffer, result);
    } finally {
      close();
    }
  };
}

function finish<T>(
  { rows, effects, now }: MemoryState,
  { claim, keepMs }: DeliveryRequest,
  buffer: WriteBuffer,
  { value, answers }: CommitWork<T>,
): DeliveryOutcome<T> {
  if (buffer.endedByStore) return idleRefusal(value);
  const row = claimedRow(effects, claim);
  if (row === null) return { kind: "lost", value };
  const answered = answers === null ? null : answeredRecord(rows, answers, now());
  if (answers !== null && answered === null) return { kind: "lost", value };
  if (answered !== null) rows.put(answered);
  effects.put(deliveredRow(row, row.effect.result, keepMs, now()));
  buffer.apply();
  return { kind: "committed", value };
}

/** Null if the guard does not hold. */
function answeredRecord(rows: MemoryRows, answers: Answers, now: number): FinishedRecord | null {
  const { key, guard, answer, retention } = answers;
  const record = rows.find(key)?.record;
  if (record?.state !== "retryable" || !guardHolds(record, guard)) return null;
  const state = move(record.state, "deliver_answer", "completed");
  return finished(lifeOf(record, record.createdAt), state, { answer, retention, errorCode: null }, now);
}
