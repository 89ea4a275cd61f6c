/** Memory stores with a planted mistake, to show that the store suite can fail. */
import type { LatchkeyRecord, RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { HintSupport } from "../../packages/latchkey/src/stores/hints.ts";
import type { JournalSupport } from "../../packages/latchkey/src/stores/journal.ts";
import { assembleMemoryStore } from "../../packages/latchkey/src/stores/memory/assemble.ts";
import { MemoryEffects } from "../../packages/latchkey/src/stores/memory/effects.ts";
import { MemoryMessages } from "../../packages/latchkey/src/stores/memory/messages.ts";
import {
  type MemoryRow,
  MemoryRows,
  type RowChange,
} from "../../packages/latchkey/src/stores/memory/rows.ts";
import { MemoryTables, type MemoryTransaction } from "../../packages/latchkey/src/stores/memory/tables.ts";
import type { MessageSupport } from "../../packages/latchkey/src/stores/messages.ts";
import type { OutboxSupport } from "../../packages/latchkey/src/stores/outbox.ts";
import type { AuditEntry, SettlementSupport } from "../../packages/latchkey/src/stores/settlement.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type { TransactionSupport } from "../../packages/latchkey/src/stores/transactions.ts";
import { storeConformance } from "../../packages/latchkey-conformance/src/store-conformance.ts";

export type BrokenStore = Store<MemoryTransaction>;
export type BrokenSupport = TransactionSupport<MemoryTransaction>;

/** A sound store and its internals, which a mistake may modify. */
export interface Parts {
  readonly inner: BrokenStore;
  readonly support: BrokenSupport;
  readonly outbox: OutboxSupport;
  readonly messages: MessageSupport;
  readonly kept: MemoryMessages;
  readonly hints: HintSupport;
  readonly rows: MemoryRows;
  readonly tables: MemoryTables;
  readonly effects: MemoryEffects;
  readonly audit: AuditEntry[];
  now(): number;
}

/** The parts of the store that the mistake replaces. */
export interface Mistake {
  readonly rows?: () => MemoryRows;
  readonly effects?: () => MemoryEffects;
  readonly store?: (parts: Parts) => Partial<BrokenStore>;
  readonly transactions?: (parts: Parts) => Partial<BrokenSupport>;
  readonly journal?: (parts: Parts) => Partial<JournalSupport>;
  readonly settlement?: (parts: Parts) => Partial<SettlementSupport>;
  readonly outbox?: (parts: Parts) => Partial<OutboxSupport>;
  readonly messages?: (parts: Parts) => Partial<MessageSupport>;
  readonly hints?: (parts: Parts) => Partial<HintSupport>;
}

export function soundParts(rows = new MemoryRows(), effects = new MemoryEffects()) {
  let time = Date.UTC(2026, 0, 1);
  const now = () => time;
  const tables = new MemoryTables();
  const audit: AuditEntry[] = [];
  const kept = new MemoryMessages();
  const { clock } = systemPorts;
  const inner = assembleMemoryStore({ rows, tables, effects, messages: kept, audit, clock, now });
  const { transactions: support, outbox, messages, hints } = inner;
  if (support === null || outbox === null || messages === null || hints === null) {
    throw new TypeError("the memory store has transactions, an outbox, messages and hints");
  }
  const advance = (milliseconds: number) => {
    time += milliseconds;
  };
  return { inner, support, outbox, messages, kept, hints, rows, tables, effects, audit, now, advance };
}

/** It waits in real time, so it runs only for the mistakes that it is meant to detect. */
export const slowCase =
  "transactions: the store ends a transaction that is idle for too long, which frees its key";

/** The groups of cases for the mistakes of `store-conformance.broken-outbox.test.ts`. */
export const effectGroups = /^(enqueue|outbox \w+|effect bytes|deliver|claim pending|lookup by id|hints):/u;

type Case = readonly [name: string, run: () => Promise<void>];

/** The suite's cases over a store with this mistake. */
export function casesOf(mistake: Mistake, skip: Readonly<Record<string, string>> = {}): readonly Case[] {
  const cases: Case[] = [];
  storeConformance<MemoryTransaction>({
    test: (name, body) => cases.push([name, body]),
    clock: "frozen",
    capabilities: soundParts().inner.capabilities,
    skip,
    factory() {
      const { advance, ...parts } = soundParts(mistake.rows?.(), mistake.effects?.());
      const sub = {
        transactions: { ...parts.support, ...mistake.transactions?.(parts) },
        journal: { ...parts.inner.journal, ...mistake.journal?.(parts) },
        settlement: { ...parts.inner.settlement, ...mistake.settlement?.(parts) },
        outbox: { ...parts.outbox, ...mistake.outbox?.(parts) },
        messages: { ...parts.messages, ...mistake.messages?.(parts) },
        hints: { ...parts.hints, ...mistake.hints?.(parts) },
      };
      return {
        store: { ...parts.inner, ...sub, ...mistake.store?.(parts) },
        advance,
        business: {
          write: (tx, row) => tx.insert("rows", { row }),
          committedRows: async () => parts.tables.rows("rows").map(({ row }) => String(row)),
        },
        close() {},
      };
    },
  });
  return cases;
}

/** Runs the cases and returns the names of those that failed, each with its error. */
export async function failuresOf(cases: readonly Case[]): Promise<ReadonlyMap<string, unknown>> {
  const failures = new Map<string, unknown>();
  for (const [name, body] of cases) {
    const error = await body().then(
      () => null,
      (reason: unknown) => reason,
    );
    if (error !== null) failures.set(name, error);
  }
  return failures;
}

/** Replaces the record by another version. */
export function alter(
  rows: MemoryRows,
  key: RecordKey,
  change: (record: LatchkeyRecord) => LatchkeyRecord,
): void {
  const row = rows.find(key);
  if (row !== null) rows.put(change(row.record), restored(row));
}

/** Everything that was stored with the record. */
export function restored({ terms, resumeAfter, life }: MemoryRow): RowChange {
  return { terms, resumeAfter, ...life };
}

export function currentOf(rows: MemoryRows, key: RecordKey): LatchkeyRecord | null {
  return rows.find(key)?.record ?? null;
}

/** Yields to other promises: what was read before may be stale afterwards. */
export const otherTurn = () => Promise.resolve();

/** The record as a running one, so that its owner may write again. */
export function running(record: LatchkeyRecord, now: number, expiresAt: number): LatchkeyRecord {
  const { tenant, scope, key, id, operation, fingerprint, principal, fence, createdAt } = record;
  const life = { tenant, scope, key, id, operation, fingerprint, principal, fence, createdAt };
  return { ...life, state: "in_progress", leaseEndsAt: now + 1, expiresAt };
}
