/** Expiry and `clean`: what is removed, when, and what is never removed. */
import assert from "node:assert/strict";
import { guardOf } from "latchkey/internal";
import {
  completion,
  createRunning,
  day,
  defaultTerms,
  endRunning,
  ends,
  hour,
  minute,
  newKey,
  newLife,
  putInState,
  readRecord,
  second,
  year,
} from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { cleanAll, nothingCleaned as nothing, race, sameRecord, unchanged } from "./check.ts";

const short = { retentionMs: hour, forgetAfterMs: day };

const purging: readonly StoreCase[] = (["complete", "fail"] as const).map((event) => ({
  name: `cleaning: after ${event}, the answer is purged at its expiry and the key is refused until it is forgotten`,
  async run(context) {
    const key = newKey();
    const answer = new Uint8Array([1]);
    const { fence, id } = await endRunning(context, key, {
      event,
      answer,
      retention: short,
      errorCode: "x",
    });
    const finished = await readRecord(context, key);
    assert.ok(finished.state === "completed" || finished.state === "failed");
    await context.advance(hour / 2);
    const early = await unchanged(context, key, "cleaning too early", () => cleanAll(context));
    assert.deepEqual(early, nothing);
    await context.advance(hour / 2 + second);
    assert.deepEqual(await cleanAll(context), { ...nothing, purged: 1 });
    const expired = await readRecord(context, key);
    const { tenant, scope, operation, principal, fingerprint, createdAt, finishedAt, forgetAt } = finished;
    const life = { tenant, scope, key: key.key, id, operation, principal, fingerprint, fence, createdAt };
    sameRecord(expired, { ...life, state: "expired", finishedAt, forgetAt }, "a tombstone");
    assert.deepEqual(await cleanAll(context), nothing, "the key must not be forgotten yet");
    await context.advance(day);
    assert.deepEqual(await cleanAll(context), { ...nothing, forgotten: 1 });
    assert.equal((await context.store.read(key)).record, null);
  },
}));

const neverCleaned: readonly StoreCase[] = (["in_progress", "retryable", "unknown"] as const).map(
  (state) => ({
    name: `cleaning: a record that is ${state} stays, however old it is`,
    async run(context) {
      const key = newKey();
      await putInState(context, state, key);
      await context.advance(10 * year);
      assert.deepEqual(await unchanged(context, key, "cleaning", () => cleanAll(context)), nothing);
    },
  }),
);

export const cleaningCases: readonly StoreCase[] = [
  ...purging,
  ...neverCleaned,
  {
    name: "cleaning: purges at `expiresAt` and forgets at `forgetAt`, not a millisecond earlier",
    frozenClock: true,
    async run(context) {
      const key = newKey();
      await endRunning(context, key, completion("a", short));
      await context.advance(hour - 1);
      assert.deepEqual(await cleanAll(context), nothing);
      await context.advance(1);
      assert.deepEqual(await cleanAll(context), { ...nothing, purged: 1 });
      await context.advance(day - hour - 1);
      assert.deepEqual(await cleanAll(context), nothing);
      await context.advance(1);
      assert.deepEqual(await cleanAll(context), { ...nothing, forgotten: 1 });
    },
  },
  {
    name: "cleaning: an answer can be read until it is purged, even past its expiry",
    async run(context) {
      const key = newKey();
      await endRunning(context, key, completion("a", short));
      const finished = await readRecord(context, key);
      await context.advance(2 * hour);
      sameRecord(await readRecord(context, key), finished, "reading must not apply expiry");
    },
  },
  {
    name: "cleaning: retention is counted from the end of the attempt, not from its start",
    async run(context) {
      const key = newKey();
      const { id, fence } = await createRunning(context, key);
      await context.advance(2 * day);
      assert.ok(await context.store.end(key, id, fence, completion("a", short)));
      assert.deepEqual(await unchanged(context, key, "cleaning", () => cleanAll(context)), nothing);
    },
  },
  {
    name: "cleaning: a record past both of its times is eventually forgotten",
    async run(context) {
      const key = newKey();
      await endRunning(context, key, completion("a", { retentionMs: hour, forgetAfterMs: hour }));
      await context.advance(2 * hour);
      const total = await cleanAll(context);
      assert.equal(total.forgotten, 1);
      assert.equal((await context.store.read(key)).record, null);
    },
  },
  {
    name: "cleaning: a pending request past its expiry fails as timed out, and is retained",
    async run(context) {
      const key = newKey();
      const life = newLife(key);
      const pending = await context.store.accept(life, null, hour);
      assert.ok(pending);
      await context.advance(hour / 2);
      assert.deepEqual(await unchanged(context, key, "cleaning too early", () => cleanAll(context)), nothing);
      await context.advance(hour / 2 + second);
      assert.deepEqual(await context.store.clean(10), { ...nothing, abandoned: 1 });
      const failed = await readRecord(context, key);
      assert.ok(failed.state === "failed");
      const { finishedAt, expiresAt, forgetAt } = failed;
      assert.ok(finishedAt >= pending.expiresAt && expiresAt > finishedAt && forgetAt >= expiresAt);
      const times = { createdAt: pending.createdAt, finishedAt, expiresAt, forgetAt };
      const expected = {
        ...life,
        state: "failed",
        answer: null,
        lastErrorCode: "timeout",
        ...times,
      } as const;
      sameRecord(failed, expected, "failed without an answer");
      assert.deepEqual(await cleanAll(context), nothing, "it must be kept for its retention");
    },
  },
  {
    name: "cleaning: a pending request fails at its expiry, not a millisecond earlier",
    frozenClock: true,
    async run(context) {
      assert.ok(await context.store.accept(newLife(newKey()), null, hour));
      await context.advance(hour - 1);
      assert.deepEqual(await context.store.clean(10), nothing);
      await context.advance(1);
      assert.deepEqual(await context.store.clean(10), { ...nothing, abandoned: 1 });
    },
  },
  {
    name: "cleaning: at most `limit` records of each kind at a time",
    async run(context) {
      for (let count = 0; count < 5; count += 1) {
        await endRunning(context, newKey(), completion("a", short));
        assert.ok(await context.store.accept(newLife(newKey()), null, hour));
      }
      await context.advance(2 * hour);
      assert.deepEqual(await context.store.clean(2), { ...nothing, abandoned: 2, purged: 2 });
      assert.deepEqual(await context.store.clean(2), { ...nothing, abandoned: 2, purged: 2 });
      assert.deepEqual(await context.store.clean(2), { ...nothing, abandoned: 1, purged: 1 });
      assert.deepEqual(await context.store.clean(2), nothing);
      await context.advance(day);
      const first = await context.store.clean(2);
      assert.ok(first.forgotten <= 2, "no more than the limit may be forgotten");
      const { forgotten } = await cleanAll(context, 2);
      assert.equal(first.forgotten + forgotten, 10);
    },
  },
  {
    name: "cleaning: many cleaners at once take each edge once",
    async run(context) {
      const keys = Array.from({ length: 6 }, () => newKey());
      for (const key of keys) await endRunning(context, key, completion("a", short));
      await context.advance(2 * hour);
      const reports = await race(context, 6, (store) => store.clean(100));
      const purged = reports.reduce((sum, report) => sum + report.purged, 0);
      assert.equal(purged + (await cleanAll(context)).purged, keys.length);
      for (const key of keys) assert.equal((await readRecord(context, key)).state, "expired");
    },
  },
  {
    name: "cleaning: a life that replaced a forgotten one is not removed",
    async run(context) {
      const key = newKey();
      await endRunning(context, key, completion("old", { retentionMs: minute, forgetAfterMs: minute }));
      await context.advance(hour);
      const old = await readRecord(context, key);
      assert.ok(await context.store.create(newLife(key), guardOf(old), defaultTerms));
      assert.deepEqual(await unchanged(context, key, "cleaning", () => cleanAll(context)), nothing);
    },
  },
  {
    name: "cleaning: a cleaner and a new life racing for a forgotten key leave the new life, or nothing",
    async run(context) {
      const key = newKey();
      await endRunning(context, key, completion("old", { retentionMs: minute, forgetAfterMs: minute }));
      await context.advance(hour);
      const old = await readRecord(context, key);
      const life = newLife(key);
      const first = context.other.clean(10);
      const create = context.store.create(life, guardOf(old), defaultTerms);
      await Promise.all([first, context.store.clean(10)]);
      const created = await create;
      sameRecord((await context.store.read(key)).record, created, "what was returned must be stored");
    },
  },
  {
    name: "cleaning: a settled record of any kind is not removed before its time",
    async run(context) {
      for (const end of Object.values(ends)) {
        const key = newKey();
        await endRunning(context, key, end);
        await unchanged(context, key, "cleaning", () => cleanAll(context));
      }
    },
  },
];
