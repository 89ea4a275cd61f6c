/** `recordLostTransaction`: how a life without an attempt becomes `unknown`. */
import assert from "node:assert/strict";
import { guardOf } from "latchkey/internal";
import {
  day,
  defaultTerms,
  endRunning,
  newKey,
  newLife,
  newToken,
  putForgettable,
  putInState,
  readRecord,
  staleGuards,
  states,
} from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { isAfter, race, refused, sameRecord, timed, winners } from "./check.ts";

const overAnyState: readonly StoreCase[] = states.map((state) => ({
  name: `lose transaction: refused without a guard over a record that is ${state}`,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    const life = newLife(key);
    await refused(context, key, "without a guard", () =>
      context.store.recordLostTransaction(life, null, "x"),
    );
    for (const [what, guard] of staleGuards(record)) {
      await refused(context, key, `with ${what}`, () =>
        context.store.recordLostTransaction(life, guard, "x"),
      );
    }
  },
}));

const overRunning: readonly StoreCase[] = (["in_progress", "pending", "unknown"] as const).map((state) => ({
  name: `lose transaction: never over a record that is ${state}, whatever the guard says`,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    const lose = () => context.store.recordLostTransaction(newLife(key), guardOf(record), "x");
    await refused(context, key, "lose transaction", lose, "illegal");
  },
}));

export const loseTransactionCases: readonly StoreCase[] = [
  {
    name: "lose transaction: the life is written as unknown and waits for a person",
    async run(context) {
      const key = newKey();
      const life = newLife(key);
      const lose = () => context.store.recordLostTransaction(life, null, "transaction-changed");
      const { result, ...span } = await timed(context, key, lose);
      assert.ok(result);
      const { createdAt } = result;
      isAfter(context, createdAt, span, 0, "createdAt");
      const lastErrorCode = "transaction-changed";
      const expected = { ...life, state: "unknown", createdAt, lastErrorCode, reconcileAfter: null } as const;
      sameRecord(result, expected, "as given");
      sameRecord(await readRecord(context, key), result, "stored as returned");
    },
  },
  {
    name: "lose transaction: replaces a forgotten record",
    async run(context) {
      const key = newKey();
      const old = await putForgettable(context, key);
      const life = newLife(key);
      assert.ok(await context.store.recordLostTransaction(life, guardOf(old), "x"));
      const record = await readRecord(context, key);
      assert.equal(record.state, "unknown");
      assert.equal(record.id, life.id);
    },
  },
  {
    name: "lose transaction: also written if the record that was seen is gone",
    async run(context) {
      const key = newKey();
      const old = await putForgettable(context, key);
      const other = newLife(key);
      assert.ok(await context.store.create(other, guardOf(old), defaultTerms));
      assert.ok(await context.store.end(key, other.id, other.fence, { event: "release" }));
      const life = newLife(key);
      assert.ok(await context.store.recordLostTransaction(life, guardOf(old), "transaction-changed"));
      const record = await readRecord(context, key);
      assert.equal(record.state, "unknown");
      assert.equal(record.id, life.id);
    },
  },
  {
    name: "lose transaction: a retryable life that was run again becomes unknown",
    async run(context) {
      const key = newKey();
      await endRunning(context, key, {
        event: "retry_later",
        errorCode: "not-executed",
        resumeAfterMs: null,
      });
      const retryable = await readRecord(context, key);
      const fence = { attempt: retryable.fence.attempt + 1, token: newToken() };
      const life = newLife(key, { id: retryable.id, fence });
      await context.advance(day);
      assert.ok(await context.store.recordLostTransaction(life, guardOf(retryable), "transaction-changed"));
      const record = await readRecord(context, key);
      const { createdAt, fingerprint, principal, operation } = retryable;
      const kept = { ...key, id: retryable.id, createdAt, fingerprint, principal, operation, fence };
      const lost = { state: "unknown", lastErrorCode: "transaction-changed", reconcileAfter: null } as const;
      sameRecord(record, { ...kept, ...lost }, "the same life, under the fence of the last run");
    },
  },
  {
    name: "lose transaction: exactly one of many at once is written",
    async run(context) {
      const key = newKey();
      const results = await race(context, 8, (store) => store.recordLostTransaction(newLife(key), null, "x"));
      assert.equal(winners(results), 1);
    },
  },
  {
    name: "lose transaction: repeating it after a lost reply is harmless",
    async run(context) {
      const key = newKey();
      const life = newLife(key);
      const first = await context.store.recordLostTransaction(life, null, "first");
      assert.ok(first);
      const again = await context.other.recordLostTransaction(life, null, "second");
      if (again !== null) sameRecord(again, first, "a repetition may only return the stored record");
      sameRecord(await readRecord(context, key), first, "the record must be the first call's");
    },
  },
  ...overAnyState,
  ...overRunning,
];
