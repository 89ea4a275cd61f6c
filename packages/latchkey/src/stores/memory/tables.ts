/** Business rows of the memory store: enough of a database to prove what commits with a record and what does not. */
import { LatchkeyError, StoreError } from "../../errors.ts";

/** Plain data; it is copied when it is stored and when it is returned. */
export type BusinessRow = Readonly<Record<string, unknown>>;

/** The `tx` of a handler over the memory store. */
export interface MemoryTransaction {
  /**
   * Adds a row to a table; the table need not exist before. Others see it after the commit.
   *
   * @throws {LatchkeyError} `tx-revoked` after the handler has answered.
   */
  insert(table: string, row: BusinessRow): Promise<void>;
  /** The committed rows of a table and this transaction's own, oldest first. Throws as `insert` does. */
  rows(table: string): Promise<readonly BusinessRow[]>;
}

interface Write {
  readonly table: string;
  readonly row: BusinessRow;
}

export class MemoryTables {
  readonly #tables = new Map<string, BusinessRow[]>();

  rows(table: string): readonly BusinessRow[] {
    return structuredClone(this.#tables.get(table) ?? []);
  }

  add(writes: readonly Write[]): void {
    for (const { table, row } of writes) {
      const rows = this.#tables.get(table) ?? [];
      rows.push(row);
      this.#tables.set(table, rows);
    }
  }
}

/** The writes of one open transaction. None of them reaches the tables before `apply`. */
export class WriteBuffer {
  readonly #tables: MemoryTables;
  readonly #onUse: () => void;
  #writes: Write[] = [];
  #state: "open" | "revoked" | "ended-by-store" = "open";
  #used = false;

  constructor(tables: MemoryTables, onUse: () => void) {
    this.#tables = tables;
    this.#onUse = onUse;
  }

  readonly tx: MemoryTransaction = {
    insert: async (table, row) => {
      this.#use();
      this.#writes.push({ table, row: structuredClone(row) });
    },
    rows: async (table) => {
      this.#use();
      const own = this.#writes.filter((write) => write.table === table).map(({ row }) => row);
      return [...this.#tables.rows(table), ...structuredClone(own)];
    },
  };

  get used(): boolean {
    return this.#used;
  }

  get endedByStore(): boolean {
    return this.#state === "ended-by-store";
  }

  revoke(): void {
    if (this.#state === "open") this.#state = "revoked";
  }

  endByStore(): void {
    this.#state = "ended-by-store";
  }

  /** How many writes there are. */
  get length(): number {
    return this.#writes.length;
  }

  /** Discards the writes from the given position on; by default all. */
  undo(from = 0): void {
    this.#writes = this.#writes.slice(0, from);
  }

  apply(): void {
    this.#tables.add(this.#writes);
  }

  #use(): void {
    if (this.#state === "revoked") throw new LatchkeyError("tx-revoked");
    if (this.#state === "ended-by-store") {
      throw new StoreError("rolled_back", { message: "The transaction was idle for too long and was ended" });
    }
    this.#used = true;
    this.#onUse();
  }
}
