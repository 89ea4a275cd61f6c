/** The memory store: the whole store contract inside one process, for tests and for trying things out. */
import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { type Clock, systemPorts } from "../ports.ts";
import { assembleMemoryStore } from "./memory/assemble.ts";
import { MemoryEffects } from "./memory/effects.ts";
import { MemoryMessages } from "./memory/messages.ts";
import { MemoryRows } from "./memory/rows.ts";
import { type BusinessRow, MemoryTables, type MemoryTransaction } from "./memory/tables.ts";
import type { Store } from "./store.ts";

export type { BusinessRow, MemoryTransaction };

export interface MemoryStoreOptions {
  /** Timers for the idle limit of transactions, and the default of `now`. The process's own by default. */
  readonly ports?: { readonly clock: Clock };
  /** The store's time in milliseconds since the Unix epoch. The clock's wall time by default. */
  readonly now?: () => number;
}

export interface MemoryStore extends Store<MemoryTransaction> {
  /** The committed rows that handlers inserted into `table`, oldest first. */
  rows(table: string): readonly BusinessRow[];
}

const storeOptionNames = { ports: true, now: true } as const satisfies OptionNames<MemoryStoreOptions>;

/**
 * Makes an empty store that lives as long as this object. Every call is one step that no other call can interrupt.
 * The isolation level of a transaction makes no difference here: its handle only inserts and reads.
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  checkOptions("memoryStore", options, storeOptionNames);
  checkPorts("memoryStore", options.ports);
  const { clock } = options.ports ?? systemPorts;
  const now = options.now ?? (() => clock.wallMs());
  const tables = new MemoryTables();
  const [rows, effects] = [new MemoryRows(), new MemoryEffects()];
  const messages = new MemoryMessages();
  const store = assembleMemoryStore({ rows, tables, effects, messages, audit: [], clock, now });
  return { ...store, rows: (table) => tables.rows(table) };
}
