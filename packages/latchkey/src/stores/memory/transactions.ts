/** Transactions of the memory store. A commit is one step: guard, record, rows, and the key is free. */
import { type Fence, type RecordKey, sameFence } from "../../engine/record.ts";
import type {
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../transactions.ts";
import { memoryBatch } from "./batch.ts";
import { commit } from "./begin.ts";
import { memoryDeliver } from "./deliver.ts";
import { enqueue } from "./effects.ts";
import { KeyLocks } from "./key-locks.ts";
import { idleRefusal, type MemoryState, openBuffer } from "./open-buffer.ts";
import { OptimisticBuffer } from "./optimistic-buffer.ts";
import { memoryPhase } from "./phase.ts";
import type { MemoryRows } from "./rows.ts";
import type { MemoryTransaction, WriteBuffer } from "./tables.ts";

type CommitWork<T> = Extract<TransactionWork<T>, { readonly end: "commit" }>;

export function memoryTransactions(state: MemoryState): TransactionSupport<MemoryTransaction> {
  const locks = new KeyLocks();
  return {
    deliver: memoryDeliver(state),
    phase: memoryPhase(state),
    async run(request, work) {
      const unlock = locks.lock(request.key);
      const { buffer, close } = openBuffer(state, request.idleLimitMs, () => unlock?.());
      try {
        const result = await work({
          reading: { record: state.rows.record(request.key), now: state.now() },
          exclusive: unlock !== null,
          tx: buffer.tx,
          used: () => buffer.used,
          revoke: () => buffer.revoke(),
        });
        if (result.end !== "commit") return { kind: "rolled_back", value: result.value };
        return finish(state, request, buffer, result);
      } finally {
        close();
      }
    },
    async runOptimistic(request, admit, work) {
      const optimistic = new OptimisticBuffer(state, request, locks, admit);
      try {
        const result = await work({
          tx: optimistic.tx,
          used: () => optimistic.used,
          revoke: () => optimistic.revoke(),
          admitted: () => optimistic.open(),
        });
        if (result.end !== "commit") return { kind: "rolled_back", value: result.value };
        return finish(state, request, optimistic.admittedBuffer(), result);
      } finally {
        optimistic.close();
      }
    },
    runBatch: memoryBatch(state, locks),
    async resolve(key, id, fence, timeoutMs) {
      const ended = await locks.waitUntilFreed(key, state.clock, timeoutMs);
      if (!ended) return "in_doubt";
      return wasCommitted(state.rows, key, id, fence) ? "committed" : "rolled_back";
    },
  };
}

function finish<T>(
  state: MemoryState,
  request: TransactionRequest,
  buffer: WriteBuffer,
  work: CommitWork<T>,
): TransactionOutcome<T> {
  const { value, life, replaces, answer, retention, undoWrites, effects } = work;
  if (buffer.endedByStore) return idleRefusal(value);
  if (undoWrites && !request.savepoint) throw new TypeError("undoWrites needs a savepoint");
  // If one of the effects exists, this very work has committed before.
  if (effects.some(({ id }) => state.effects.find(id) !== null)) return { kind: "lost", value };
  const record = commit(state.rows, state.now(), { life, replaces }, answer, retention);
  if (record === null) return { kind: "lost", value };
  if (!undoWrites) {
    buffer.apply();
    enqueue(state.effects, record, effects, state.now());
  }
  return { kind: "committed", value, expiresAt: record.expiresAt };
}

/** Compares the id and the fence, which the record keeps whatever happens to the committed answer later. */
function wasCommitted(rows: MemoryRows, key: RecordKey, id: string, fence: Fence): boolean {
  const record = rows.find(key)?.record;
  if (record === undefined || record.id !== id || !sameFence(record.fence, fence)) return false;
  return record.state === "completed" || record.state === "expired";
}
