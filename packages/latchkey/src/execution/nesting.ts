/**
 * Rejects a key inside its own attempt. A transaction-level lock is re-entrant, and a reservation would wait for its own
 * owner, so neither would detect it.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { RecordKey } from "../engine/record.ts";
import { LatchkeyError } from "../errors.ts";

interface Frame {
  readonly key: RecordKey;
  /** Set at the end, because work that an attempt started may outlive it, and inherits its frame. */
  over: boolean;
}

const running = new AsyncLocalStorage<readonly Frame[]>();

/**
 * Runs a submission of the key. Code called through `inside` counts as part of the attempt until `run` ends.
 *
 * @throws {LatchkeyError} `nested-key` when this call is inside an attempt of the same key.
 */
export async function guardNesting<T>(
  key: RecordKey,
  run: (inside: <R>(call: () => R) => R) => Promise<T>,
): Promise<T> {
  const outer = running.getStore()?.filter((frame) => !frame.over) ?? [];
  if (outer.some((frame) => sameKey(frame.key, key))) throw new LatchkeyError("nested-key");
  const frame: Frame = { key, over: false };
  try {
    // Only code that runs a handler enters the frame: most submissions are answered without one.
    return await run((call) => running.run([...outer, frame], call));
  } finally {
    frame.over = true;
  }
}

/** Whether the caller is part of a running attempt. */
export function insideAttempt(): boolean {
  return running.getStore()?.some((frame) => !frame.over) ?? false;
}

function sameKey(left: RecordKey, right: RecordKey): boolean {
  return left.tenant === right.tenant && left.scope === right.scope && left.key === right.key;
}
