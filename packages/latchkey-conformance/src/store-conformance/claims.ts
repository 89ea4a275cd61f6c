/** `settlement.claimUnknowns` and `postpone`: which worker looks up which record, and when. */
import assert from "node:assert/strict";
import type { LatchkeyRecord } from "latchkey";
import { guardOf } from "latchkey/internal";
import {
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
  staleGuards,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, race, refused, sameRecord, timed } from "./check.ts";
import { keyOf, takeOver } from "./journal-arrange.ts";
import { completedOutside, neverHappened, putInDoubt, settleUnknown } from "./settlement-arrange.ts";

const operation = "payments.create";
const claimMs = 5 * minute;

const idsOf = (records: readonly LatchkeyRecord[]) => records.map(({ id }) => id);

async function claim(context: CaseContext, limit = 100, operations: readonly string[] = [operation]) {
  const claimed = await context.store.settlement.claimUnknowns(operations, limit, claimMs);
  return idsOf(claimed.map(({ record }) => record));
}

export const claimCases: readonly StoreCase[] = [
  {
    name: "claim: an unknown record whose time has come is returned, and hidden for the time of the claim",
    async run(context) {
      const { key, unknown } = await putInDoubt(context, minute);
      assert.deepEqual(await claim(context), [], "its time has not come");
      await context.advance(minute + second);
      const take = () => context.store.settlement.claimUnknowns([operation], 100, claimMs);
      const { result, ...span } = await timed(context, key, take);
      const [claimed, ...more] = result;
      assert.ok(claimed && more.length === 0);
      assert.equal(claimed.tries, 1);
      isAfter(context, claimed.record.reconcileAfter, span, claimMs, "reconcileAfter");
      const { reconcileAfter } = claimed.record;
      sameRecord(claimed.record, { ...unknown, reconcileAfter }, "the record with its next time");
      sameRecord(await readRecord(context, key), claimed.record, "stored as returned");
      assert.deepEqual(
        idsOf(
          (await context.other.settlement.claimUnknowns([operation], 100, claimMs)).map(
            ({ record }) => record,
          ),
        ),
        [],
      );
      await context.advance(claimMs + second);
      const [again] = await take();
      assert.deepEqual([again?.record.id, again?.tries], [unknown.id, 2], "if the first claim had no result");
    },
  },
  {
    name: "claim: at `reconcileAfter`, not a millisecond earlier",
    frozenClock: true,
    async run(context) {
      const { unknown } = await putInDoubt(context, minute);
      await context.advance(minute - 1);
      assert.deepEqual(await claim(context), []);
      await context.advance(1);
      assert.deepEqual(await claim(context), [unknown.id]);
      await context.advance(claimMs - 1);
      assert.deepEqual(await claim(context), []);
      await context.advance(1);
      assert.deepEqual(await claim(context), [unknown.id]);
    },
  },
  {
    name: "claim: a record that waits for a person is never returned",
    async run(context) {
      await putInDoubt(context, null);
      await context.advance(1_000 * hour);
      assert.deepEqual(await claim(context), []);
    },
  },
  {
    name: "claim: only of the operations that are named",
    async run(context) {
      const ids = [];
      for (const name of ["one", "two", "three"]) {
        const key = newKey({ scope: name });
        ids.push((await endRunning(context, key, { ...ends.unknown, reconcileAfterMs: 0 })).id);
        await context.advance(second);
      }
      assert.deepEqual(await claim(context, 100, []), []);
      assert.deepEqual(await claim(context, 100, ["One", "on", "four"]), []);
      assert.deepEqual(await claim(context, 100, ["three", "one"]), [ids[0], ids[2]]);
      assert.deepEqual(await claim(context, 100, ["one", "two", "three"]), [ids[1]]);
    },
  },
  {
    name: "claim: selects by operation, even if keys are unique per tenant",
    async run(context) {
      const life = newLife(newKey({ scope: "*" }), { operation: "refunds.create" });
      const record = await context.store.create(life, null, defaultTerms);
      assert.ok(record);
      const doubt = { ...ends.unknown, reconcileAfterMs: 0 };
      assert.ok(await context.store.end(keyOf(record), record.id, record.fence, doubt));
      await context.advance(1);
      assert.deepEqual(await claim(context, 100, ["*", operation]), []);
      assert.deepEqual(await claim(context, 100, ["refunds.create"]), [record.id]);
    },
  },
  {
    name: "claim: oldest first, at most `limit`",
    async run(context) {
      const ids: string[] = [];
      for (const minutes of [3, 1, 5, 2, 4]) {
        ids[minutes - 1] = (await putInDoubt(context, minutes * minute)).unknown.id;
      }
      await context.advance(hour);
      assert.deepEqual(await claim(context, 2), ids.slice(0, 2));
      assert.deepEqual(await claim(context, 2), ids.slice(2, 4));
      assert.deepEqual(await claim(context, 2), ids.slice(4));
      assert.deepEqual(await claim(context, 2), []);
    },
  },
  {
    name: "claim: many at once claim each record once",
    async run(context) {
      const ids = [];
      for (let count = 0; count < 6; count += 1) ids.push((await putInDoubt(context, 0)).unknown.id);
      const claims = await race(context, 4, (store) =>
        store.settlement.claimUnknowns([operation], 100, claimMs),
      );
      const claimed = idsOf(claims.flat().map(({ record }) => record));
      assert.equal(new Set(claimed).size, claimed.length, "none twice");
      assert.deepEqual([...claimed, ...(await claim(context))].sort(), ids.sort());
    },
  },
  {
    name: "claim: never a record in another state",
    async run(context) {
      for (const state of states.filter((candidate) => candidate !== "unknown")) {
        await putInState(context, state);
      }
      const { key } = await putInDoubt(context, 0);
      await settleUnknown(context, key, neverHappened);
      await context.advance(hour);
      assert.deepEqual(await claim(context), []);
    },
  },
  {
    name: "claim: tries are counted over the whole life, and start again in a new one",
    async run(context) {
      const { key, record } = await putInDoubt(context, 0);
      assert.deepEqual(await claim(context), [record.id]);
      await settleUnknown(context, key, neverHappened);
      const next = await takeOver(context, record);
      const doubt = { ...ends.unknown, reconcileAfterMs: 0 };
      assert.ok(await context.store.end(key, next.id, next.fence, doubt));
      await context.advance(1);
      const [again] = await context.store.settlement.claimUnknowns([operation], 100, claimMs);
      assert.deepEqual([again?.record.id, again?.tries], [record.id, 2]);
      await settleUnknown(context, key, completedOutside);
      await context.advance(3 * hour);
      const old = await readRecord(context, key);
      const life = newLife(key);
      assert.ok(await context.store.create(life, guardOf(old), defaultTerms));
      assert.ok(await context.store.end(key, life.id, life.fence, doubt));
      await context.advance(1);
      const [fresh] = await context.store.settlement.claimUnknowns([operation], 100, claimMs);
      assert.deepEqual([fresh?.record.id, fresh?.tries], [life.id, 1]);
    },
  },
  {
    name: "postpone: moves the next try, and changes nothing else",
    async run(context) {
      const { key, unknown, guard } = await putInDoubt(context, 0);
      const move = () => context.store.settlement.postpone(key, guard, hour);
      const { result, ...span } = await timed(context, key, move);
      assert.equal(result, true);
      const after = await readRecord(context, key);
      assert.ok(after.state === "unknown");
      isAfter(context, after.reconcileAfter, span, hour, "reconcileAfter");
      const { reconcileAfter } = after;
      sameRecord(after, { ...unknown, reconcileAfter }, "only the next try may change");
      assert.deepEqual(await claim(context), []);
      await context.advance(hour + second);
      assert.deepEqual(await claim(context), [unknown.id]);
    },
  },
  {
    name: "postpone: null leaves the record to a person, and a later time undoes that",
    async run(context) {
      const { key, unknown, guard } = await putInDoubt(context, 0);
      const { postpone } = context.store.settlement;
      assert.equal(await postpone(key, guard, null), true);
      const after = await readRecord(context, key);
      assert.equal(after.state === "unknown" ? after.reconcileAfter : 0, null);
      await context.advance(1_000 * hour);
      assert.deepEqual(await claim(context), []);
      assert.equal(await postpone(key, guard, 0), true);
      await context.advance(1);
      assert.deepEqual(await claim(context), [unknown.id]);
    },
  },
  {
    name: "postpone: does not reset the count of tries",
    async run(context) {
      const { key, guard } = await putInDoubt(context, 0);
      await claim(context);
      assert.equal(await context.store.settlement.postpone(key, guard, 0), true);
      await context.advance(1);
      const [again] = await context.store.settlement.claimUnknowns([operation], 100, claimMs);
      assert.equal(again?.tries, 2);
    },
  },
  {
    name: "postpone: the guard covers every part of the record's version",
    async run(context) {
      const { key, unknown, guard } = await putInDoubt(context, 0);
      const { postpone } = context.store.settlement;
      for (const [what, stale] of staleGuards(unknown)) {
        await refused(context, key, what, () => postpone(key, stale, hour));
      }
      assert.equal(await postpone({ ...key, tenant: "another" }, guard, hour), false);
    },
  },
  {
    name: "postpone: refused on a record in another state, whatever the guard says",
    async run(context) {
      for (const state of states.filter((candidate) => candidate !== "unknown")) {
        const key = newKey();
        const record = await putInState(context, state, key);
        for (const named of [guardOf(record), { ...guardOf(record), state: "unknown" as const }]) {
          const postpone = () => context.store.settlement.postpone(key, named, 0);
          await refused(context, key, `postponing one that is ${state}`, postpone, "illegal");
        }
      }
    },
  },
];
