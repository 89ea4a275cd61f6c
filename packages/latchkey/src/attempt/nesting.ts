/**
 * Refuses to run a key inside itself. A transaction-level lock is re-entrant and a reservation would wait for its own
 * owner, so neither can be relied on to notice.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { RecordKey } from "../engine/record.ts";
import { LatchkeyError } from "../errors.ts";

const running = new AsyncLocalStorage<readonly RecordKey[]>();

/** @throws {LatchkeyError} `nested-key` when this call is inside an attempt of the same key. */
export function guardNesting<T>(key: RecordKey, run: () => Promise<T>): Promise<T> {
  const outer = running.getStore() ?? [];
  if (outer.some((other) => sameKey(other, key))) return Promise.reject(new LatchkeyError("nested-key"));
  return running.run([...outer, key], run);
}

function sameKey(left: RecordKey, right: RecordKey): boolean {
  return left.tenant === right.tenant && left.scope === right.scope && left.key === right.key;
}
