/** `create` and `accept`: the start of a life. */
import assert from "node:assert/strict";
import type { RecordState } from "latchkey";
import { guardOf, type NewLife } from "latchkey/internal";
import {
  completion,
  day,
  defaultRetention,
  defaultTerms,
  endRunning,
  fingerprint,
  hour,
  leaseMs,
  newKey,
  newLife,
  newToken,
  putForgettable,
  putInState,
  readRecord,
  staleGuards,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, race, refused, sameRecord, timed, winners } from "./check.ts";

const callers = 8;

/** States of a row that a new life may replace, with its guard as admission saw it. */
const replaceable: readonly RecordState[] = ["completed", "failed", "expired"];
const notReplaceable = states.filter((state) => !replaceable.includes(state));

async function putReplaceable(context: CaseContext, state: RecordState) {
  const key = newKey();
  const record = await putInState(context, state, key);
  await context.advance(day);
  return { key, record };
}

const overAnyState: readonly StoreCase[] = states.map((state) => ({
  name: `create: without a guard, nothing begins over a record that is ${state}`,
  async run(context) {
    const key = newKey();
    await putInState(context, state, key);
    await refused(context, key, "create", () => context.store.create(newLife(key), null, defaultTerms));
    await refused(context, key, "accept", () => context.store.accept(newLife(key), null, day));
  },
}));

const replacing: readonly StoreCase[] = replaceable.flatMap((state) => [
  {
    name: `create: a new life takes the place of one that is ${state} and over`,
    async run(context) {
      const { key, record } = await putReplaceable(context, state);
      const life: NewLife = {
        ...newLife(key, { principal: null, operation: "another", fingerprint: fingerprint(9, 2) }),
      };
      const create = () => context.store.create(life, guardOf(record), defaultTerms);
      const { result, ...span } = await timed(context, key, create);
      assert.ok(result, "the guard held, so the new life must begin");
      const { createdAt, leaseEndsAt, expiresAt } = result;
      const times = { createdAt, leaseEndsAt, expiresAt };
      sameRecord(
        result,
        { ...life, state: "in_progress", ...times },
        "nothing of the previous life may stay",
      );
      isAfter(context, createdAt, span, 0, "createdAt");
      sameRecord(await readRecord(context, key), result, "stored as returned");
    },
  },
  {
    name: `create: the guard names every part of the ${state} record it replaces`,
    async run(context) {
      const { key, record } = await putReplaceable(context, state);
      for (const [what, guard] of staleGuards(record)) {
        const life = newLife(key);
        await refused(context, key, `create over ${what}`, () =>
          context.store.create(life, guard, defaultTerms),
        );
        await refused(context, key, `accept over ${what}`, () => context.store.accept(life, guard, day));
      }
    },
  },
]);

const refusedReplacing: readonly StoreCase[] = notReplaceable.map((state) => ({
  name: `create: no life begins over a record that is ${state}, whatever the guard says`,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    const life = newLife(key);
    const create = () => context.store.create(life, guardOf(record), defaultTerms);
    await refused(context, key, "create", create, "illegal");
    await refused(context, key, "accept", () => context.store.accept(life, guardOf(record), day), "illegal");
  },
}));

export const createCases: readonly StoreCase[] = [
  {
    name: "create: the lease and the abandonment are counted from the store's time",
    async run(context) {
      const key = newKey();
      const terms = { ...defaultTerms, leaseMs, abandonAfterMs: 3 * hour };
      const create = () => context.store.create(newLife(key), null, terms);
      const { result, ...span } = await timed(context, key, create);
      assert.ok(result);
      isAfter(context, result.createdAt, span, 0, "createdAt");
      isAfter(context, result.leaseEndsAt, span, leaseMs, "leaseEndsAt");
      isAfter(context, result.expiresAt, span, 3 * hour, "expiresAt");
    },
  },
  {
    name: "create: exactly one of many at once begins",
    async run(context) {
      const key = newKey();
      const lives = Array.from({ length: callers }, () => newLife(key));
      const results = await race(context, callers, (store, index) =>
        store.create(lives[index] ?? newLife(key), null, defaultTerms),
      );
      assert.equal(winners(results), 1);
      const winner = results.find((result) => result !== null) ?? null;
      sameRecord(await readRecord(context, key), winner, "the stored record must be the winner's");
    },
  },
  {
    name: "create: repeating it after a lost reply begins nothing new",
    async run(context) {
      const key = newKey();
      const life = newLife(key);
      const first = await context.store.create(life, null, defaultTerms);
      const again = await context.other.create(life, null, defaultTerms);
      if (again !== null) sameRecord(again, first, "a repetition may only return the stored record");
      sameRecord(await readRecord(context, key), first, "the record must be the first call's");
    },
  },
  {
    name: "create: exactly one of many at once takes the place of a forgotten record",
    async run(context) {
      const key = newKey();
      const old = await putForgettable(context, key);
      const results = await race(context, callers, (store) =>
        store.create(newLife(key), guardOf(old), defaultTerms),
      );
      assert.equal(winners(results), 1);
      const record = await readRecord(context, key);
      assert.equal(record.id, results.find((result) => result !== null)?.id);
    },
  },
  {
    name: "create: repeating a replacement after a lost reply begins nothing new",
    async run(context) {
      const key = newKey();
      const old = await putForgettable(context, key);
      const life = newLife(key);
      const first = await context.store.create(life, guardOf(old), defaultTerms);
      assert.ok(first);
      const again = await context.other.create(life, guardOf(old), defaultTerms);
      if (again !== null) sameRecord(again, first, "a repetition may only return the stored record");
      sameRecord(await readRecord(context, key), first, "the record must be the first call's");
    },
  },
  {
    name: "create: a completed record whose answer is still kept is not replaced, whatever the guard says",
    async run(context) {
      const key = newKey();
      await endRunning(context, key, completion("kept", defaultRetention));
      const record = await readRecord(context, key);
      const life = newLife(key);
      const create = () => context.store.create(life, guardOf(record), defaultTerms);
      await refused(context, key, "create", create, "illegal");
    },
  },
  {
    name: "create: a completed record may be replaced at its expiry, not a millisecond earlier",
    frozenClock: true,
    async run(context) {
      const key = newKey();
      await endRunning(context, key, completion("kept", { retentionMs: hour, forgetAfterMs: day }));
      const record = await readRecord(context, key);
      const create = () => context.store.create(newLife(key), guardOf(record), defaultTerms);
      await context.advance(hour - 1);
      await refused(context, key, "create a millisecond early", create, "illegal");
      await context.advance(1);
      assert.ok(await create(), "at its expiry it must succeed");
    },
  },
  ...overAnyState,
  ...replacing,
  ...refusedReplacing,
  {
    name: "create: an accepted request is pending until its own expiry",
    async run(context) {
      const key = newKey();
      const life = newLife(key);
      const accept = () => context.store.accept(life, null, hour);
      const { result, ...span } = await timed(context, key, accept);
      assert.ok(result);
      const { createdAt, expiresAt } = result;
      sameRecord(result, { ...life, state: "pending", createdAt, expiresAt }, "as given");
      isAfter(context, createdAt, span, 0, "createdAt");
      isAfter(context, expiresAt, span, hour, "expiresAt");
      sameRecord(await readRecord(context, key), result, "stored as returned");
    },
  },
  {
    name: "create: accepting takes the place of a forgotten record",
    async run(context) {
      const key = newKey();
      const old = await putForgettable(context, key);
      const life = newLife(key);
      assert.ok(await context.store.accept(life, guardOf(old), hour));
      const record = await readRecord(context, key);
      assert.equal(record.state, "pending");
      assert.equal(record.id, life.id);
    },
  },
  {
    name: "create: exactly one of many at once is accepted",
    async run(context) {
      const key = newKey();
      const results = await race(context, callers, (store) => store.accept(newLife(key), null, hour));
      assert.equal(winners(results), 1);
    },
  },
  {
    name: "create: an admission and an acceptance of one key do not both succeed",
    async run(context) {
      const key = newKey();
      const results = await race<unknown>(context, callers, (store, index) =>
        index % 3 === 0
          ? store.accept(newLife(key), null, hour)
          : store.create(newLife(key), null, defaultTerms),
      );
      assert.equal(winners(results), 1);
    },
  },
  {
    name: "create: a new life of a forgotten key has nothing of the old one",
    async run(context) {
      const key = newKey();
      const old = await putForgettable(context, key);
      await context.store.clean(100);
      await context.store.clean(100);
      assert.equal((await context.store.read(key)).record, null, "the key must be forgotten");
      const life = newLife(key, { fence: { attempt: 1, token: newToken() } });
      const created = await context.store.create(life, null, defaultTerms);
      assert.ok(created);
      assert.notEqual(created.id, old.id);
      assert.equal(created.id, life.id);
      assert.deepEqual({ ...created.fence }, life.fence);
    },
  },
];
