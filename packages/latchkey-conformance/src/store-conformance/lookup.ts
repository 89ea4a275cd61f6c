/** `read`, `verify` and what a store declares about itself. */
import assert from "node:assert/strict";
import { day, defaultTerms, newKey, newLife, putInState, states } from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { nothingCleaned, sameRecord } from "./check.ts";

/** The fields that each state has in addition to the common ones. */
const ownFields: Readonly<Record<string, readonly string[]>> = {
  pending: ["expiresAt"],
  in_progress: ["leaseEndsAt", "expiresAt"],
  completed: ["finishedAt", "expiresAt", "forgetAt", "answer", "lastErrorCode"],
  failed: ["finishedAt", "expiresAt", "forgetAt", "answer", "lastErrorCode"],
  retryable: ["lastErrorCode"],
  unknown: ["lastErrorCode", "reconcileAfter"],
  expired: ["finishedAt", "forgetAt"],
};

const commonFields = [
  "createdAt",
  "fence",
  "fingerprint",
  "id",
  "key",
  "operation",
  "principal",
  "scope",
  "state",
  "tenant",
];

const stateCases: readonly StoreCase[] = states.map((state) => ({
  name: `lookup: a record that is ${state} has the fields of that state and no others`,
  async run(context) {
    const record = await putInState(context, state);
    const fields = [...commonFields, ...(ownFields[state] ?? [])].sort();
    assert.deepEqual(Object.keys(record).sort(), fields);
    const times = Object.entries(record).filter(([name]) => name.endsWith("At"));
    for (const [name, value] of times) assert.equal(typeof value, "number", `${name} must be a number`);
  },
}));

export const lookupCases: readonly StoreCase[] = [
  {
    name: "lookup: a ready store passes `verify` and has a name",
    async run({ store, other }) {
      await store.verify();
      await other.verify();
      assert.notEqual(store.name, "");
    },
  },
  {
    name: "lookup: a new store is empty",
    async run({ store }) {
      assert.deepEqual(await store.endedLeases(100), []);
      assert.deepEqual(await store.clean(100), nothingCleaned);
    },
  },
  {
    name: "lookup: an absent key reads as null, with the store's time",
    async run({ store }) {
      const reading = await store.read(newKey());
      assert.equal(reading.record, null);
      assert.ok(Number.isFinite(reading.now), "now must be a finite number of milliseconds");
    },
  },
  {
    name: "lookup: the store's time moves with `advance` and is the same for both instances",
    async run({ store, other, advance }) {
      const key = newKey();
      const before = await store.read(key);
      await advance(day);
      const after = await other.read(key);
      assert.ok(after.now >= before.now + day, "time must move by a day");
      assert.ok(after.now < before.now + 2 * day, "time must not move by two days");
    },
  },
  {
    name: "lookup: a written record is read complete, through both instances",
    async run({ store, other }) {
      const key = newKey();
      const life = newLife(key);
      const created = await store.create(life, null, defaultTerms);
      assert.ok(created);
      for (const instance of [store, other]) {
        const { record } = await instance.read(key);
        sameRecord(record, created, "`read` must return what `create` returned");
      }
      const { leaseEndsAt, expiresAt, createdAt, ...identity } = created;
      assert.ok(createdAt < leaseEndsAt && leaseEndsAt < expiresAt);
      const rest = { leaseEndsAt, expiresAt, createdAt };
      sameRecord({ ...identity, ...rest }, { ...life, state: "in_progress", ...rest }, "as given");
    },
  },
  ...stateCases,
  {
    name: "lookup: changing a value that was passed in or returned does not change the record",
    async run(context) {
      const key = newKey();
      const life = newLife(key);
      await context.store.create(life, null, defaultTerms);
      const answer = new Uint8Array([1, 2, 3]);
      const retention = { retentionMs: day, forgetAfterMs: day };
      await context.store.end(key, life.id, life.fence, {
        event: "complete",
        answer,
        retention,
        errorCode: null,
      });
      life.fingerprint.digest.fill(99);
      answer.fill(99);
      for (let round = 0; round < 2; round += 1) {
        const { record } = await context.store.read(key);
        assert.ok(record?.state === "completed" && record.answer !== null);
        assert.deepEqual([...record.answer], [1, 2, 3]);
        assert.equal(record.fingerprint.digest[0], 7);
        record.answer.fill(98);
        record.fingerprint.digest.fill(98);
      }
    },
  },
];
