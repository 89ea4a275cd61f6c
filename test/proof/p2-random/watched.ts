/** The memory store's own rows, effects and tables, with somebody who looks at every write as it happens. */
import type { LatchkeyRecord, RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import { type EffectRow, MemoryEffects } from "../../../packages/latchkey/src/stores/memory/effects.ts";
import { MemoryRows, type RowChange } from "../../../packages/latchkey/src/stores/memory/rows.ts";
import { MemoryTables } from "../../../packages/latchkey/src/stores/memory/tables.ts";
import type { EffectLog } from "./effect-log.ts";
import type { Lives } from "./lives.ts";

/** Without copies: whoever changed what it was given would spoil the store, and be seen. */
const uncopied = <T>(value: T) => value;

export class WatchedRows extends MemoryRows {
  readonly #lives: Lives;

  constructor(lives: Lives) {
    super(undefined, uncopied);
    this.#lives = lives;
  }

  override put<R extends LatchkeyRecord>(record: R, change: RowChange = {}): R {
    const stored = super.put(record, change);
    this.#lives.written(record, change);
    return stored;
  }

  override remove(key: RecordKey): void {
    super.remove(key);
    this.#lives.removed(key);
  }
}

export class WatchedEffects extends MemoryEffects {
  readonly #log: EffectLog;

  constructor(log: EffectLog) {
    super(uncopied);
    this.#log = log;
  }

  override put(row: EffectRow): EffectRow {
    const stored = super.put(row);
    this.#log.written(stored);
    return stored;
  }

  override remove(id: string): void {
    super.remove(id);
    this.#log.removed(id);
  }
}

export class WatchedTables extends MemoryTables {
  readonly #log: EffectLog;

  constructor(log: EffectLog) {
    super();
    this.#log = log;
  }

  override add(writes: Parameters<MemoryTables["add"]>[0]): void {
    super.add(writes);
    for (const { row } of writes) this.#log.inserted(row);
  }
}
