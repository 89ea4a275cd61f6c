/** Comparisons that all groups of the store suite use. */
import assert from "node:assert/strict";
import type { LatchkeyRecord, RecordKey } from "latchkey";
import type { CaseContext } from "./case.ts";

/** Asserts that exactly the expected fields have the expected values; bytes are compared as bytes, in any kind of array. */
export function sameRecord(
  actual: LatchkeyRecord | null,
  expected: LatchkeyRecord | null,
  message: string,
): void {
  assert.deepEqual(comparable(actual), comparable(expected), message);
}

function comparable(record: LatchkeyRecord | null): unknown {
  if (record === null) return null;
  const { fingerprint, fence, ...rest } = record;
  return {
    ...rest,
    fence: { ...fence },
    fingerprint: { version: fingerprint.version, digest: hex(fingerprint.digest) },
    ...("answer" in record ? { answer: record.answer === null ? null : hex(record.answer) } : {}),
  };
}

export function hex(bytes: Uint8Array): string {
  assert.ok(bytes instanceof Uint8Array, "bytes must be returned as a Uint8Array");
  return Buffer.from(bytes).toString("hex");
}

/** Runs `act` and asserts that the record of `key` is the same afterwards, or still absent. */
export async function unchanged<T>(
  context: CaseContext,
  key: RecordKey,
  what: string,
  act: () => Promise<T>,
): Promise<T> {
  const before = await context.store.read(key);
  const result = await act();
  const after = await context.store.read(key);
  sameRecord(after.record, before.record, `${what} must leave the record as it was`);
  return result;
}

/**
 * Asserts that a write does not happen: it returns `null` or `false`, and the record stays as it was. For an edge that does
 * not exist (`illegal`), the store may also throw.
 */
export async function refused(
  context: CaseContext,
  key: RecordKey,
  what: string,
  act: () => Promise<unknown>,
  illegal: "legal" | "illegal" = "legal",
): Promise<void> {
  const result = await unchanged(context, key, what, () =>
    illegal === "illegal" ? act().catch(() => null) : act(),
  );
  assert.ok(result === null || result === false, `${what} must be refused`);
}

/** The store's time just before and just after `act`. The two are equal under a clock that stands still. */
export async function timed<T>(context: CaseContext, key: RecordKey, act: () => Promise<T>) {
  const { now: before } = await context.store.read(key);
  const result = await act();
  const { now: after } = await context.store.read(key);
  return { before, result, after };
}

/** A running clock may be rounded to a millisecond when it is read. */
const roundingMs = 1;

/** Asserts that `actual` is `delayMs` after a moment between `before` and `after`. */
export function isAfter(
  context: CaseContext,
  actual: number | null,
  span: { readonly before: number; readonly after: number },
  delayMs: number,
  what: string,
): void {
  const slack = context.frozenClock ? 0 : roundingMs;
  assert.ok(typeof actual === "number", `${what} must be a number`);
  assert.ok(
    actual >= span.before + delayMs - slack,
    `${what} must not be earlier than ${delayMs} ms from now`,
  );
  assert.ok(actual <= span.after + delayMs + slack, `${what} must not be later than ${delayMs} ms from now`);
}

/** How many of `results` are neither null nor false. */
export function winners(results: readonly unknown[]): number {
  return results.filter((result) => result !== null && result !== false).length;
}

/** Starts `count` calls at once, alternating between the two instances of the store. */
export function race<T>(
  context: CaseContext,
  count: number,
  act: (store: CaseContext["store"], index: number) => Promise<T>,
): Promise<readonly T[]> {
  const stores = [context.store, context.other];
  return Promise.all(
    Array.from({ length: count }, (_, index) => act(stores[index % 2] ?? context.store, index)),
  );
}

export const nothingCleaned = { abandoned: 0, purged: 0, forgotten: 0, effects: 0, messages: 0 };

/** Cleans until nothing is left to do, and adds up the reports. */
export async function cleanAll(context: CaseContext, limit = 100) {
  const total = { ...nothingCleaned };
  for (let round = 0; round < 1_000; round += 1) {
    const report = await context.store.clean(limit);
    if (Object.values(report).every((count) => count === 0)) return total;
    total.abandoned += report.abandoned;
    total.purged += report.purged;
    total.forgotten += report.forgotten;
    total.effects += report.effects;
    total.messages += report.messages;
  }
  assert.fail("cleaning must come to an end");
}
