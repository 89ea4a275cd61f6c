/** `giveUp` and `endedLeases`: what happens to attempts that their owners do not end. */
import assert from "node:assert/strict";
import { guardOf } from "latchkey/internal";
import {
  completion,
  createRunning,
  defaultTerms,
  hour,
  leaseMs,
  minute,
  newKey,
  newToken,
  putInState,
  readRecord,
  second,
  staleGuards,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, race, refused, sameRecord, timed, winners } from "./check.ts";

/** A running record whose lease is over. */
async function putDead(context: CaseContext) {
  const key = newKey();
  const record = await createRunning(context, key);
  await context.advance(leaseMs + second);
  return { key, record, guard: guardOf(record) };
}

const inOtherStates: readonly StoreCase[] = states
  .filter((state) => state !== "in_progress")
  .map((state) => ({
    name: `give up: never on a record that is ${state}`,
    async run(context) {
      const key = newKey();
      const record = await putInState(context, state, key);
      await context.advance(leaseMs + second);
      const giveUp = () => context.store.giveUp(key, guardOf(record), "x", null);
      await refused(context, key, "give up", giveUp, "illegal");
    },
  }));

export const giveUpCases: readonly StoreCase[] = [
  {
    name: "give up: an attempt whose lease has ended becomes unknown, with its fence",
    async run(context) {
      const { key, record, guard } = await putDead(context);
      const giveUp = () => context.store.giveUp(key, guard, "lease-ended", hour);
      const { result, ...span } = await timed(context, key, giveUp);
      assert.equal(result, true);
      const settled = await readRecord(context, key);
      assert.ok(settled.state === "unknown");
      isAfter(context, settled.reconcileAfter, span, hour, "reconcileAfter");
      const { leaseEndsAt: _lease, expiresAt: _abandon, ...life } = record;
      const { reconcileAfter } = settled;
      const expected = { ...life, state: "unknown", lastErrorCode: "lease-ended", reconcileAfter } as const;
      sameRecord(settled, expected, "only the state may change");
    },
  },
  {
    name: "give up: without a time, the record waits for a person",
    async run(context) {
      const { key, guard } = await putDead(context);
      assert.equal(await context.store.giveUp(key, guard, "lease-ended", null), true);
      const settled = await readRecord(context, key);
      assert.ok(settled.state === "unknown");
      assert.equal(settled.reconcileAfter, null);
    },
  },
  {
    name: "give up: never while the lease runs",
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      const giveUp = () => context.store.giveUp(key, guardOf(record), "x", null);
      await refused(context, key, "give up at once", giveUp);
      await context.advance(leaseMs / 2);
      await refused(context, key, "give up half-way", giveUp);
    },
  },
  {
    name: "give up: not at the old end of a renewed lease",
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      await context.advance(leaseMs / 2);
      assert.equal(await context.store.renew(key, record.id, record.fence, leaseMs), true);
      await context.advance(leaseMs / 2 + second);
      await refused(context, key, "give up", () => context.store.giveUp(key, guardOf(record), "x", null));
    },
  },
  {
    name: "give up: the lease ends at `leaseEndsAt`, not a millisecond earlier",
    frozenClock: true,
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      const giveUp = () => context.store.giveUp(key, guardOf(record), "x", null);
      await context.advance(leaseMs - 1);
      await refused(context, key, "give up a millisecond early", giveUp);
      await context.advance(1);
      assert.equal(await giveUp(), true, "at the end of the lease it must succeed");
    },
  },
  {
    name: "give up: the guard covers every part of the record's version",
    async run(context) {
      const { key, record } = await putDead(context);
      for (const [what, guard] of staleGuards(record)) {
        await refused(context, key, `give up with ${what}`, () =>
          context.store.giveUp(key, guard, "x", null),
        );
      }
    },
  },
  {
    name: "give up: repeating it after a lost reply is harmless",
    async run(context) {
      const { key, guard } = await putDead(context);
      assert.equal(await context.store.giveUp(key, guard, "first", minute), true);
      await context.advance(second);
      await refused(context, key, "the repetition", () => context.other.giveUp(key, guard, "second", null));
    },
  },
  {
    name: "give up: of a late completion, a take-over and many rescuers, exactly one is written",
    async run(context) {
      const { key, record, guard } = await putDead(context);
      const { id, fence, fingerprint } = record;
      const results = await race<unknown>(context, 9, (store, index) => {
        if (index % 3 === 0) return store.giveUp(key, guard, "lease-ended", null);
        if (index % 3 === 1) return store.end(key, id, fence, completion());
        return store.takeOver(key, guard, fingerprint, newToken(), defaultTerms);
      });
      assert.equal(winners(results), 1);
      const winner = results.findIndex((result) => result !== null && result !== false) % 3;
      const state = ["unknown", "completed", "in_progress"][winner];
      assert.equal((await readRecord(context, key)).state, state);
    },
  },
  {
    name: "give up: the late owner of an unknown record cannot end it",
    async run(context) {
      const { key, record, guard } = await putDead(context);
      await context.store.giveUp(key, guard, "lease-ended", null);
      const { id, fence } = record;
      await refused(context, key, "complete", () => context.store.end(key, id, fence, completion()));
      await refused(context, key, "release", () => context.store.end(key, id, fence, { event: "release" }));
      await refused(context, key, "renew", () => context.store.renew(key, id, fence, leaseMs));
    },
  },
  ...inOtherStates,
];

/** Terms under which a dead attempt may be taken over, or the reason why it may not. */
const dying = {
  mayBeTakenOver: {},
  reconcile: { leaseEnd: "reconcile" },
  attemptsSpent: { attemptsMax: 1 },
  pastExpiry: { abandonAfterMs: minute },
} as const;

async function endedKeys(context: CaseContext, limit = 100): Promise<readonly string[]> {
  const ended = await context.store.endedLeases(limit);
  return ended.map(({ record }) => record.key);
}

export const endedLeaseCases: readonly StoreCase[] = [
  {
    name: "ended leases: only leases of records that no attempt may take over",
    async run(context) {
      const keys = {
        mayBeTakenOver: newKey(),
        reconcile: newKey(),
        attemptsSpent: newKey(),
        pastExpiry: newKey(),
      };
      for (const [name, terms] of Object.entries(dying)) {
        await createRunning(context, keys[name as keyof typeof keys], terms);
      }
      assert.deepEqual(await endedKeys(context), [], "no lease has ended yet");
      await context.advance(leaseMs + second);
      await createRunning(context, newKey(), dying.reconcile);
      const { reconcile, attemptsSpent, pastExpiry } = keys;
      const expected = [reconcile, attemptsSpent, pastExpiry].map(({ key }) => key).sort();
      assert.deepEqual([...(await endedKeys(context))].sort(), expected);
      await context.advance(defaultTerms.abandonAfterMs);
      assert.ok((await endedKeys(context)).includes(keys.mayBeTakenOver.key), "past expiry by now");
    },
  },
  {
    name: "ended leases: each comes with its record and the terms it was given",
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key, { leaseEnd: "reconcile", attemptsMax: 7 });
      await context.advance(leaseMs + second);
      const [ended] = await context.store.endedLeases(10);
      assert.ok(ended);
      sameRecord(ended.record, record, "the record as it is stored");
      assert.equal(ended.leaseEnd, "reconcile");
      assert.equal(ended.attemptsMax, 7);
    },
  },
  {
    name: "ended leases: a take-over sets its own terms",
    async run(context) {
      const { key, record, guard } = await putDead(context);
      const terms = { ...defaultTerms, leaseEnd: "reconcile", attemptsMax: 2 } as const;
      assert.deepEqual(await endedKeys(context), []);
      assert.ok(await context.store.takeOver(key, guard, record.fingerprint, newToken(), terms));
      assert.deepEqual(await endedKeys(context), []);
      await context.advance(leaseMs + second);
      const [ended] = await context.store.endedLeases(10);
      assert.equal(ended?.record.key, key.key);
      assert.equal(ended?.record.fence.attempt, 2);
      assert.equal(ended?.leaseEnd, "reconcile");
      assert.equal(ended?.attemptsMax, 2);
    },
  },
  {
    name: "ended leases: oldest first, at most `limit`",
    async run(context) {
      const keys = [];
      for (const leaseMinutes of [3, 1, 5, 2, 4]) {
        const key = newKey();
        keys[leaseMinutes] = key.key;
        await createRunning(context, key, { leaseEnd: "reconcile", leaseMs: leaseMinutes * minute });
      }
      await context.advance(hour);
      const oldestFirst = keys.slice(1);
      assert.deepEqual(await endedKeys(context), oldestFirst);
      assert.deepEqual(await endedKeys(context, 2), oldestFirst.slice(0, 2));
    },
  },
  {
    name: "ended leases: first the records that could not be taken over for the longest time, whenever their leases ended",
    async run(context) {
      const [late, early] = [newKey(), newKey()];
      await createRunning(context, late, { leaseMs: minute, abandonAfterMs: 5 * minute });
      await createRunning(context, early, { leaseMs: 3 * minute, leaseEnd: "reconcile" });
      await context.advance(hour);
      assert.deepEqual(await endedKeys(context), [early.key, late.key]);
      assert.deepEqual(await endedKeys(context, 1), [early.key]);
    },
  },
  {
    name: "ended leases: a lease ends at `leaseEndsAt`, not a millisecond earlier",
    frozenClock: true,
    async run(context) {
      const key = newKey();
      await createRunning(context, key, { leaseEnd: "reconcile" });
      await context.advance(leaseMs - 1);
      assert.deepEqual(await endedKeys(context), []);
      await context.advance(1);
      assert.deepEqual(await endedKeys(context), [key.key]);
    },
  },
  {
    name: "ended leases: a renewed lease has not ended",
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key, { leaseEnd: "reconcile" });
      await context.advance(leaseMs / 2);
      await context.store.renew(key, record.id, record.fence, hour);
      await context.advance(leaseMs);
      assert.deepEqual(await endedKeys(context), []);
      await context.advance(hour);
      assert.deepEqual(await endedKeys(context), [key.key]);
    },
  },
  {
    name: "ended leases: an attempt that was ended or given up has none",
    async run(context) {
      const given = newKey();
      const record = await createRunning(context, given, { leaseEnd: "reconcile" });
      for (const state of states.filter((candidate) => candidate !== "in_progress")) {
        await putInState(context, state);
      }
      await context.advance(leaseMs + second);
      assert.deepEqual(await endedKeys(context), [given.key]);
      await context.store.giveUp(given, guardOf(record), "lease-ended", null);
      assert.deepEqual(await endedKeys(context), []);
    },
  },
];
