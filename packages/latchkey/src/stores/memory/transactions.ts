/** Transactions of the memory store. A commit is one step: guard, record, rows, and the key is free. */
import { type Fence, type RecordKey, sameFence } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import type {
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../store.ts";
import { commit } from "./begin.ts";
import { KeyLocks } from "./key-locks.ts";
import type { MemoryRows } from "./rows.ts";
import { type MemoryTables, type MemoryTransaction, WriteBuffer } from "./tables.ts";

export interface MemoryState {
  readonly rows: MemoryRows;
  readonly tables: MemoryTables;
  readonly clock: Clock;
  /** The store's time. */
  readonly now: () => number;
}

type CommitWork<T> = Extract<TransactionWork<T>, { readonly end: "commit" }>;

export function memoryTransactions(state: MemoryState): TransactionSupport<MemoryTransaction> {
  const locks = new KeyLocks();
  return {
    async run(request, work) {
      const transaction = openTransaction(state, locks, request);
      const { buffer } = transaction;
      try {
        const result = await work({
          reading: { record: state.rows.find(request.key)?.record ?? null, now: state.now() },
          exclusive: transaction.exclusive,
          tx: buffer.tx,
          used: () => buffer.used,
          revoke: () => buffer.revoke(),
        });
        if (result.end !== "commit") return { kind: "rolled_back", value: result.value };
        return finish(state, request, buffer, result);
      } finally {
        transaction.close();
      }
    },
    async resolve(key, id, fence, timeoutMs) {
      const ended = await locks.waitUntilFreed(key, state.clock, timeoutMs);
      if (!ended) return "in_doubt";
      return wasCommitted(state.rows, key, id, fence) ? "committed" : "rolled_back";
    },
  };
}

/** Takes the key and starts the idle limit, which every use of `tx` starts again. */
function openTransaction(state: MemoryState, locks: KeyLocks, request: TransactionRequest) {
  const unlock = locks.lock(request.key);
  let cancelTimer = () => {};
  const watch = () => {
    cancelTimer();
    cancelTimer = state.clock.startTimer(request.idleLimitMs, () => {
      buffer.endByStore();
      unlock?.();
    });
  };
  const buffer = new WriteBuffer(state.tables, watch);
  watch();
  const close = () => {
    cancelTimer();
    buffer.revoke();
    unlock?.();
  };
  return { buffer, exclusive: unlock !== null, close };
}

function finish<T>(
  state: MemoryState,
  request: TransactionRequest,
  buffer: WriteBuffer,
  work: CommitWork<T>,
): TransactionOutcome<T> {
  const { value, life, replaces, answer, retention, undoWrites } = work;
  if (buffer.endedByStore) {
    const error = new StoreError("rolled_back", { message: "The transaction was idle for too long" });
    return { kind: "refused", value, because: "other", error };
  }
  if (undoWrites && !request.savepoint) throw new TypeError("undoWrites needs a savepoint");
  const record = commit(state.rows, state.now(), { life, replaces }, answer, retention);
  if (record === null) return { kind: "lost", value };
  if (!undoWrites) buffer.apply();
  return { kind: "committed", value, expiresAt: record.expiresAt };
}

/** Whatever became of a committed answer since, its record keeps the id and the fence. */
function wasCommitted(rows: MemoryRows, key: RecordKey, id: string, fence: Fence): boolean {
  const record = rows.find(key)?.record;
  if (record === undefined || record.id !== id || !sameFence(record.fence, fence)) return false;
  return record.state === "completed" || record.state === "expired";
}
