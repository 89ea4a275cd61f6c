/** Cleaning and effects: delivered effects are removed, and no record is removed before its effects are delivered. */
import assert from "node:assert/strict";
import { guardOf } from "latchkey/internal";
import { day, defaultTerms, hour, newKey, newLife, readRecord, year } from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { cleanAll, nothingCleaned as nothing, race, sameRecord, unchanged } from "./check.ts";
import { keyOf } from "./journal-arrange.ts";
import {
  claim,
  claimNew,
  claimOf,
  claimOnly,
  deadNote,
  deliveryEnds,
  effectNow,
  effectStates,
  effectsOf,
  endOnly,
  enqueue,
  idsOf,
  leavesEffect,
  newEffect,
  outboxOf,
  putEffectIn,
  sameEffect,
  startNew,
} from "./outbox-arrange.ts";
import { commitOf, newRow, transactional, withTransactions, writing } from "./transactions-arrange.ts";

const waiting: readonly StoreCase[] = effectStates
  .filter((state) => state !== "delivered")
  .map((state) => ({
    name: `outbox cleaning: a record with an effect that is ${state} is not forgotten, and the effect stays, however old they are`,
    needs: withTransactions,
    async run(context) {
      const effect = await putEffectIn(context, state);
      await context.advance(10 * year);
      const cleaned = await leavesEffect(context, effect, "cleaning", () => cleanAll(context));
      assert.deepEqual([cleaned.forgotten, cleaned.effects], [0, 0]);
      const record = await readRecord(context, keyOf(effect));
      assert.equal(record.id, effect.recordId);
      assert.equal(record.state, "expired", "its answer must be purged anyway");
    },
  }));

export const outboxCleaningCases: readonly StoreCase[] = [
  {
    name: "outbox cleaning: a delivered effect goes when its retention is over, and not before",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await endOnly(context, { ...claimOf(started), event: "deliver", result: null, keepMs: 10 * day });
      await context.advance(9 * day);
      assert.equal((await cleanAll(context)).effects, 0);
      await context.advance(2 * day);
      assert.deepEqual(await cleanAll(context), { ...nothing, effects: 1 });
      assert.deepEqual(await effectsOf(context, started.recordId), []);
    },
  },
  {
    name: "outbox cleaning: at the end of its retention, not a millisecond earlier",
    needs: withTransactions,
    frozenClock: true,
    async run(context) {
      const claimed = await claimNew(context);
      await endOnly(context, { ...claimOf(claimed), event: "deliver", result: null, keepMs: hour });
      await context.advance(hour - 1);
      assert.equal((await context.store.clean(10)).effects, 0);
      await context.advance(1);
      assert.equal((await context.store.clean(10)).effects, 1);
    },
  },
  {
    name: "outbox cleaning: repeating a delivery does not keep the effect longer",
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      const end = { ...claimOf(claimed), event: "deliver", result: null, keepMs: day } as const;
      await endOnly(context, end);
      await context.advance(day / 2);
      await endOnly(context, end);
      await context.advance(day / 2 + hour);
      assert.equal((await cleanAll(context)).effects, 1);
    },
  },
  ...waiting,
  {
    name: "outbox cleaning: an answer whose retention ends with the key's is purged while the key waits for an effect",
    needs: withTransactions,
    async run(context) {
      const [key, effect] = [newKey(), newEffect()];
      const retention = { retentionMs: hour, forgetAfterMs: hour };
      await writing(transactional(context), key, newRow(), () =>
        commitOf(key, { effects: [effect], retention }),
      );
      await context.advance(day);
      assert.deepEqual(await cleanAll(context), { ...nothing, purged: 1 });
      assert.equal((await readRecord(context, key)).state, "expired");
      await endOnly(context, deliveryEnds.deliver(await claimOnly(context, effect)));
      assert.deepEqual(await cleanAll(context), { ...nothing, forgotten: 1 });
    },
  },
  {
    name: "outbox cleaning: a record is forgotten once its last effect is delivered or discarded",
    needs: withTransactions,
    async run(context) {
      const ids = [];
      const delivered = await claimNew(context);
      const dead = await putEffectIn(context, "dead");
      for (const effect of [delivered, dead]) ids.push(effect.recordId);
      await context.advance(year);
      assert.equal((await cleanAll(context)).forgotten, 0);
      await endOnly(context, deliveryEnds.deliver(delivered));
      assert.equal((await cleanAll(context)).forgotten, 1);
      const discard = { event: "discard", attempt: null, keepMs: hour } as const;
      assert.equal(await outboxOf(context.store).decide(dead.id, discard, deadNote()), true);
      assert.equal((await cleanAll(context)).forgotten, 1);
    },
  },
  {
    name: "outbox cleaning: records that wait for their effects do not block others",
    needs: withTransactions,
    async run(context) {
      for (let count = 0; count < 5; count += 1) await enqueue(context, { delayMs: 10 * year });
      await context.advance(day);
      const { recordId, ...free } = await putEffectIn(context, "delivered");
      await context.advance(day);
      assert.equal((await cleanAll(context, 2)).forgotten, 1);
      assert.equal((await context.store.read(keyOf(free))).record, null, recordId);
    },
  },
  {
    name: "outbox cleaning: at most `limit` effects at a time",
    needs: withTransactions,
    async run(context) {
      for (let count = 0; count < 5; count += 1) await putEffectIn(context, "delivered");
      await context.advance(10 * day);
      const counts = [];
      for (let round = 0; round < 4; round += 1) counts.push((await context.store.clean(2)).effects);
      assert.deepEqual(counts, [2, 2, 1, 0]);
    },
  },
  {
    name: "outbox cleaning: many cleaners at once count each effect once",
    needs: withTransactions,
    async run(context) {
      for (let count = 0; count < 6; count += 1) await putEffectIn(context, "delivered");
      await context.advance(10 * day);
      const reports = await race(context, 4, (store) => store.clean(100));
      const removed = reports.reduce((sum, { effects }) => sum + effects, 0);
      assert.equal(removed + (await cleanAll(context)).effects, 6);
    },
  },
  {
    name: "outbox cleaning: a record whose retention is not over stays when its effects go",
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      await endOnly(context, { ...claimOf(claimed), event: "deliver", result: null, keepMs: 1 });
      await context.advance(10);
      const report = await unchanged(context, keyOf(claimed), "cleaning", () => cleanAll(context));
      assert.deepEqual(report, { ...nothing, effects: 1 });
    },
  },
  {
    name: "outbox cleaning: with keepMs 0 an effect is gone once it is delivered and cleaning has run",
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      await endOnly(context, { ...claimOf(claimed), event: "deliver", result: null, keepMs: 0 });
      await unchanged(context, keyOf(claimed), "cleaning", () => cleanAll(context));
      assert.deepEqual(await effectsOf(context, claimed.recordId), []);
    },
  },
  {
    name: "outbox cleaning: an effect is delivered even if a new life has replaced its record",
    needs: withTransactions,
    async run(context) {
      const effect = await enqueue(context);
      await context.advance(day);
      const old = await readRecord(context, keyOf(effect));
      const life = newLife(keyOf(effect));
      const created = await context.store.create(life, guardOf(old), defaultTerms);
      assert.ok(created);
      sameEffect(await effectNow(context, effect), effect, "it must be unchanged");
      assert.deepEqual(await effectsOf(context, life.id), [], "the new life must have none");
      await endOnly(context, deliveryEnds.deliver(await claimOnly(context, effect)));
      await context.advance(10 * day);
      assert.equal((await cleanAll(context)).effects, 1);
      sameRecord(await readRecord(context, keyOf(effect)), created, "the new life continues");
    },
  },
  {
    name: "outbox cleaning: effects of other records block nothing, not even those of the same key in another tenant",
    needs: withTransactions,
    async run(context) {
      const { key } = newKey();
      const held = await enqueue(context, { delayMs: 10 * year }, newKey({ tenant: "a", key }));
      const free = await enqueue(context, {}, newKey({ tenant: "b", key }));
      assert.deepEqual(idsOf(await claim(context)), [free.id]);
      await endOnly(
        context,
        deliveryEnds.deliver({ id: free.id, fence: (await effectNow(context, free)).fence }),
      );
      await context.advance(day);
      assert.equal((await cleanAll(context)).forgotten, 1);
      assert.equal((await context.store.read(keyOf(free))).record, null);
      assert.equal((await readRecord(context, keyOf(held))).id, held.recordId);
    },
  },
];
