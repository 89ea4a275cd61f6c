/**
 * Refuses to run a key inside itself. A transaction-level lock is re-entrant and a reservation would wait for its own
 * owner, so neither can be relied on to notice.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { RecordKey } from "../engine/record.ts";
import { LatchkeyError } from "../errors.ts";

interface Frame {
  readonly key: RecordKey;
  /** What an attempt has started may outlive it, and inherits its frame. */
  over: boolean;
}

const running = new AsyncLocalStorage<readonly Frame[]>();

/**
 * Runs a submission of the key. What it calls through `inside` counts as inside the attempt, until `run` is over.
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
    // Only what runs a handler enters the frame: most submissions are answered without one.
    return await run((call) => running.run([...outer, frame], call));
  } finally {
    frame.over = true;
  }
}

/** Whether the caller is part of an attempt that runs. */
export function insideAttempt(): boolean {
  return running.getStore()?.some((frame) => !frame.over) ?? false;
}

function sameKey(left: RecordKey, right: RecordKey): boolean {
  return left.tenant === right.tenant && left.scope === right.scope && left.key === right.key;
}
