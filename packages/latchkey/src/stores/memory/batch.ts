/** Several keys in one transaction of the memory store. Its COMMIT is one step, as that of a single one is. */
import { LatchkeyError } from "../../errors.ts";
import type { BatchedRecord, BatchOutcome, TransactionPart, TransactionSupport } from "../transactions.ts";
import { commit } from "./begin.ts";
import { enqueue } from "./effects.ts";
import type { KeyLocks } from "./key-locks.ts";
import { idleRefusal, type MemoryState, openBuffer } from "./open-buffer.ts";
import type { MemoryTransaction, WriteBuffer } from "./tables.ts";

type RunBatch = NonNullable<TransactionSupport<MemoryTransaction>["runBatch"]>;

export function memoryBatch(state: MemoryState, locks: KeyLocks): RunBatch {
  return async (request, work) => {
    const unlocks = request.keys.map((key) => locks.lock(key));
    const { buffer, close } = openBuffer(state, request.idleLimitMs, () => {
      for (const unlock of unlocks) unlock?.();
    });
    try {
      const admissions = request.keys.map((key, place) => ({
        reading: { record: state.rows.record(key), now: state.now() },
        exclusive: unlocks[place] !== null,
      }));
      const result = await work({ admissions, part: () => partOf(buffer) });
      if (result.end !== "commit") return { kind: "rolled_back", value: result.value };
      return finish(state, buffer, result.value, result.records);
    } finally {
      close();
    }
  };
}

function partOf(buffer: WriteBuffer): TransactionPart<MemoryTransaction> {
  const from = buffer.length;
  let used = false;
  let revoked = false;
  const using = () => {
    if (revoked) throw new LatchkeyError("tx-revoked");
    used = true;
  };
  return {
    tx: {
      async insert(table, row) {
        using();
        await buffer.tx.insert(table, row);
      },
      async rows(table) {
        using();
        return buffer.tx.rows(table);
      },
    },
    used: () => used,
    revoke() {
      revoked = true;
    },
    state: () => "usable",
    leavesBehind: () => false,
    undo: async () => buffer.undo(from),
  };
}

function finish<T>(
  state: MemoryState,
  buffer: WriteBuffer,
  value: T,
  records: readonly BatchedRecord[],
): BatchOutcome<T> {
  if (buffer.endedByStore) return idleRefusal(value);
  const isTaken = ({ life, effects }: BatchedRecord) =>
    state.rows.record(life) !== null || effects.some(({ id }) => state.effects.find(id) !== null);
  if (records.some(isTaken)) return { kind: "lost", value };
  const expiresAt = new Map<string, number>();
  for (const { life, answer, retention, effects } of records) {
    const record = commit(state.rows, state.now(), { life, replaces: null }, answer, retention);
    if (record === null) throw new TypeError("A record exists that did not exist at admission");
    enqueue(state.effects, record, effects, state.now());
    expiresAt.set(life.id, record.expiresAt);
  }
  buffer.apply();
  return { kind: "committed", value, expiresAt };
}
