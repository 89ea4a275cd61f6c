/**
 * Which keys a transaction is running under, on one PGlite database. Its advisory locks belong to the session, which
 * all transactions share, so they exclude nothing; and a query of the database would wait for the open transaction.
 */
import type { RecordKey } from "../../engine/record.ts";
import type { Clock } from "../../ports.ts";
import type { Reading } from "../life.ts";

/** A transaction that is running under a key, or waiting for its turn. */
export interface RunningKey {
  /**
   * What it found under the key. That stays true until it ends, because no other transaction can write in the meantime. Waits
   * until it has looked; null if it ended without looking.
   */
  reading(): Promise<Reading | null>;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
}

export interface OwnKey extends RunningKey {
  looked(reading: Reading): void;
  end(): void;
}

export class RunningKeys {
  readonly #running = new Map<string, RunningKey>();

  find(schema: string, key: RecordKey): RunningKey | null {
    return this.#running.get(keyText(schema, key)) ?? null;
  }

  /** The key must not be running. */
  start(schema: string, key: RecordKey, clock: Clock): OwnKey {
    const text = keyText(schema, key);
    const looked = Promise.withResolvers<(() => Reading) | null>();
    const ended = Promise.withResolvers<void>();
    const own: OwnKey = {
      reading: async () => (await looked.promise)?.() ?? null,
      ended: ended.promise,
      looked: (reading) => looked.resolve(ageing(reading, clock)),
      end: () => {
        if (this.#running.get(text) === own) this.#running.delete(text);
        looked.resolve(null);
        ended.resolve();
      },
    };
    this.#running.set(text, own);
    return own;
  }
}

/** A function that returns the same record, with the store's time at the call. */
function ageing(reading: Reading, clock: Clock): () => Reading {
  const at = clock.monotonicMs();
  return () => ({ record: reading.record, now: reading.now + Math.floor(clock.monotonicMs() - at) });
}

/** Quoting makes the text unique whatever the parts contain. */
function keyText(schema: string, { tenant, scope, key }: RecordKey): string {
  return JSON.stringify([schema, tenant, scope, key]);
}

const byDatabase = new WeakMap<object, RunningKeys>();

/** Shared by all stores on one database. */
export function runningKeysOf(database: object): RunningKeys {
  let keys = byDatabase.get(database);
  if (keys === undefined) {
    keys = new RunningKeys();
    byDatabase.set(database, keys);
  }
  return keys;
}
