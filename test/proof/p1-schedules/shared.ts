/** All that processes share, as a value: the store's rows, open transactions, the other side, what is on its way, and time. */
import type { RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import { assembleMemoryStore } from "../../../packages/latchkey/src/stores/memory/assemble.ts";
import { type EffectRow, MemoryEffects } from "../../../packages/latchkey/src/stores/memory/effects.ts";
import { MemoryMessages } from "../../../packages/latchkey/src/stores/memory/messages.ts";
import { type MemoryRow, MemoryRows } from "../../../packages/latchkey/src/stores/memory/rows.ts";
import { MemoryTables } from "../../../packages/latchkey/src/stores/memory/tables.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { AuditEntry } from "../../../packages/latchkey/src/stores/settlement.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import type { TransactionRequest } from "../../../packages/latchkey/src/stores/transactions.ts";
import { type Touch, watched } from "./apart.ts";
import type { Ask } from "./ask.ts";
import { type OtherSide, untouched } from "./other-side.ts";
import type { Write } from "./process-store.ts";

/** A transaction that holds its key. */
export interface OpenTransaction {
  readonly id: string;
  readonly actor: string;
  readonly key: RecordKey;
  /** False: somebody else held the key when it opened. */
  readonly exclusive: boolean;
  /** From then on the store has ended it. */
  readonly endsAt: number;
}

export interface Shared {
  /** The store's time, and everybody's. */
  readonly now: number;
  readonly rows: readonly MemoryRow[];
  readonly effects: readonly EffectRow[];
  readonly tables: readonly Write[];
  readonly audit: readonly AuditEntry[];
  readonly other: OtherSide;
  readonly open: readonly OpenTransaction[];
  /** Of whom nobody waits for any more. They arrive in any order. */
  readonly late: readonly Ask[];
}

export const nothing: Shared = {
  now: 1_000_000,
  rows: [],
  effects: [],
  tables: [],
  audit: [],
  other: untouched,
  open: [],
  late: [],
};

/** A memory store that begins with what is shared. */
export interface Restored {
  readonly store: Store<MemoryTransaction>;
  /** What is shared after what was done with it. */
  snapshot(): Shared;
  /** What it was done with, in order. */
  readonly touched: readonly Touch[];
}

class LoggedTables extends MemoryTables {
  readonly written: Write[] = [];

  override add(writes: readonly Write[]): void {
    super.add(writes);
    this.written.push(...writes);
  }
}

/** @param isIdle the store ends every transaction that it opens */
export function restored(shared: Shared, isIdle: boolean): Restored {
  const [rows, effects, tables] = [new MemoryRows(), new MemoryEffects(), new LoggedTables()];
  const audit = [...shared.audit];
  const { now } = shared;
  for (const { record, terms, life, resumeAfter } of shared.rows) {
    rows.put(record, { ...life, terms, resumeAfter });
  }
  for (const row of shared.effects) effects.put(row);
  const clock = {
    monotonicMs: () => now,
    wallMs: () => now,
    startTimer(_delayMs: number, task: () => void) {
      if (isIdle) queueMicrotask(task);
      return () => {};
    },
    keepAlive: () => () => {},
  };
  const touched: Touch[] = [];
  return {
    touched,
    store: assembleMemoryStore({
      rows: watched("rows", rows, touched),
      effects: watched("effects", effects, touched),
      tables: watched("tables", tables, touched),
      messages: new MemoryMessages(),
      audit: watched("audit", audit, touched),
      clock,
      now: () => now,
    }),
    snapshot: () => ({
      ...shared,
      rows: rows.all(),
      effects: effects.all(),
      tables: [...shared.tables, ...tables.written],
      audit,
    }),
  };
}

/** Opens again what is open: each holds its key until it is ended, which is never. */
export function holdKeys(store: Store<MemoryTransaction>, { open, now }: Shared): void {
  for (const { key, exclusive, endsAt } of open) {
    if (!exclusive || now >= endsAt) continue;
    const request: TransactionRequest = { key, isolation: null, idleLimitMs: endsAt - now, savepoint: false };
    void store.transactions?.run(request, () => new Promise<never>(() => {}));
  }
}

export function later(shared: Shared, ms: number): Shared {
  return { ...shared, now: shared.now + ms };
}

/** Its connections break, and the store ends what was open on them; but for a COMMIT that is on its way. */
export function withoutProcess(shared: Shared, actor: string): Shared {
  const isLate = (id: string) => shared.late.some(({ args }) => args[0] === id);
  return { ...shared, open: shared.open.filter((one) => one.actor !== actor || isLate(one.id)) };
}

export function withoutTransaction(shared: Shared, id: unknown): Shared {
  return { ...shared, open: shared.open.filter((one) => one.id !== id) };
}

/** Whether passing time means something to what is shared. */
export function hasDeadline({ now, rows, effects, open }: Shared): boolean {
  const dues = [
    ...rows.flatMap(({ record, resumeAfter }) => [
      record.state === "in_progress" ? record.leaseEndsAt : null,
      record.state === "unknown" ? record.reconcileAfter : null,
      resumeAfter,
    ]),
    ...effects.flatMap(({ effect, dueAt, leaseEndsAt }) =>
      effect.state === "delivered" || effect.state === "dead" ? [] : [leaseEndsAt ?? dueAt],
    ),
    ...open.map(({ endsAt }) => endsAt),
  ];
  return dues.some((due) => due !== null && due > now);
}
