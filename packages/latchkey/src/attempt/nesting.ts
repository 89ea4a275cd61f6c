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

const outermost: readonly Frame[] = [];

/**
 * Runs a submission of the key. What it calls through `inside` counts as inside the attempt, until `run` is over.
 * Rejects with `nested-key` when this call is inside an attempt of the same key.
 */
export function guardNesting<T>(
  key: RecordKey,
  run: (inside: <R>(call: () => R) => R) => Promise<T>,
): Promise<T> {
  const outer = running.getStore()?.filter((frame) => !frame.over) ?? outermost;
  if (outer.some((frame) => sameKey(frame.key, key))) return Promise.reject(new LatchkeyError("nested-key"));
  const entry: Entry<T> = { key, outer, frame: null, whole: null };
  try {
    entry.whole = run((call) => enter(entry, call));
  } catch (error) {
    entry.whole = Promise.reject(error);
  }
  if (entry.frame !== null) leaveAfter(entry.whole, entry.frame);
  return entry.whole;
}

interface Entry<T> {
  readonly key: RecordKey;
  readonly outer: readonly Frame[];
  /** Null until something is called inside: most submissions are answered without a handler. */
  frame: Frame | null;
  /** Null while `run` has not returned. */
  whole: Promise<T> | null;
}

function enter<T, R>(entry: Entry<T>, call: () => R): R {
  if (entry.frame === null) {
    entry.frame = { key: entry.key, over: false };
    if (entry.whole !== null) leaveAfter(entry.whole, entry.frame);
  }
  return running.run([...entry.outer, entry.frame], call);
}

function leaveAfter(whole: Promise<unknown>, frame: Frame): void {
  const leave = () => {
    frame.over = true;
  };
  whole.then(leave, leave);
}

function sameKey(left: RecordKey, right: RecordKey): boolean {
  return left.tenant === right.tenant && left.scope === right.scope && left.key === right.key;
}
