/** `outbox.claim`: which effects are claimed, by which caller, and in which order. */
import assert from "node:assert/strict";
import { hour, leaseMs, minute, newKey, newToken, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { race } from "./check.ts";
import {
  claim,
  claimAtMost,
  claimOnly,
  deliveryEnds,
  effectName,
  effectNow,
  endOnly,
  enqueue,
  idsOf,
  outboxOf,
  putEffectIn,
  rescueAll,
  retryAt,
  sameEffect,
  startNew,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

const callers = 4;

/** Enqueues effects with these delays in minutes, in this order. */
async function enqueueAfter(context: CaseContext, minutes: readonly number[]): Promise<readonly string[]> {
  const ids: string[] = [];
  for (const delay of minutes) ids[delay] = (await enqueue(context, { delayMs: delay * minute })).id;
  return ids.filter((id) => id !== undefined);
}

export const outboxClaimCases: readonly StoreCase[] = [
  {
    name: "outbox claim: claims an effect under its own fence, changes nothing else, and hides it",
    needs: withTransactions,
    async run(context) {
      const effect = await enqueue(context);
      const token = newToken();
      const [claimed, ...more] = await claim(context, undefined, token);
      assert.ok(claimed && more.length === 0, "exactly one effect must be due");
      const expected = { ...effect, state: "claimed", fence: { attempt: 1, token } } as const;
      sameEffect(claimed, expected, "the effect, claimed");
      sameEffect(await effectNow(context, effect), expected, "stored as returned");
      for (const store of [context.store, context.other]) {
        const again = await outboxOf(store).claim([{ effect: effectName, limit: 9 }], newToken(), leaseMs);
        assert.deepEqual(again, [], "no other caller gets it");
      }
    },
  },
  {
    name: "outbox claim: claims nothing if nothing is wanted or due",
    needs: withTransactions,
    async run(context) {
      assert.deepEqual(await claim(context), []);
      await enqueue(context);
      assert.deepEqual(await claim(context, []), []);
      assert.deepEqual(await claimAtMost(context, 0), []);
    },
  },
  {
    name: "outbox claim: only of the definitions that are named",
    needs: withTransactions,
    async run(context) {
      const ids = [];
      for (const effect of ["one", "two", "three"]) ids.push((await enqueue(context, { effect })).id);
      const of = async (...names: readonly string[]) =>
        idsOf(
          await claim(
            context,
            names.map((effect) => ({ effect, limit: 9 })),
          ),
        ).sort();
      assert.deepEqual(await of("One", "on", "four", "t%", "*"), []);
      assert.deepEqual(await of("three", "one"), [ids[0], ids[2]].sort());
      assert.deepEqual(await of("one", "two", "three"), [ids[1]]);
    },
  },
  {
    name: "outbox claim: at most the limit of each definition",
    needs: withTransactions,
    async run(context) {
      for (const effect of ["one", "one", "one", "two", "two", "two"]) await enqueue(context, { effect });
      const wants = [
        { effect: "one", limit: 1 },
        { effect: "two", limit: 2 },
      ];
      const counts = async () => {
        const names = (await claim(context, wants)).map(({ effect }) => effect);
        return [names.filter((name) => name === "one").length, names.filter((name) => name === "two").length];
      };
      assert.deepEqual(await counts(), [1, 2]);
      assert.deepEqual(await counts(), [1, 1]);
      assert.deepEqual(await counts(), [1, 0]);
      assert.deepEqual(await counts(), [0, 0]);
    },
  },
  {
    name: "outbox claim: effects that are due first come first, whatever the order in which they were written",
    needs: withTransactions,
    async run(context) {
      const ids = await enqueueAfter(context, [3, 1, 5, 2, 4]);
      await context.advance(hour);
      assert.deepEqual(idsOf(await claimAtMost(context, 2)), ids.slice(0, 2));
      assert.deepEqual(idsOf(await claimAtMost(context, 2)), ids.slice(2, 4));
      assert.deepEqual(idsOf(await claimAtMost(context, 2)), ids.slice(4));
    },
  },
  {
    name: "outbox claim: never before an effect is due",
    needs: withTransactions,
    async run(context) {
      const late = await enqueue(context, { delayMs: hour });
      const soon = await enqueue(context);
      assert.deepEqual(idsOf(await claim(context)), [soon.id]);
      await context.advance(hour / 2);
      assert.deepEqual(await claim(context), []);
      await context.advance(hour / 2 + second);
      assert.deepEqual(idsOf(await claim(context)), [late.id]);
    },
  },
  {
    name: "outbox claim: at the time that it is due, not a millisecond earlier",
    needs: withTransactions,
    frozenClock: true,
    async run(context) {
      const effect = await enqueue(context, { delayMs: minute });
      await context.advance(minute - 1);
      assert.deepEqual(await claim(context), []);
      await context.advance(1);
      const claimed = await claimOnly(context, effect);
      await endOnly(context, retryAt(claimed, minute));
      await context.advance(minute - 1);
      assert.deepEqual(await claim(context), []);
      await context.advance(1);
      await claimOnly(context, effect);
    },
  },
  {
    name: "outbox claim: each claim raises the attempt, under its own token",
    needs: withTransactions,
    async run(context) {
      const effect = await enqueue(context);
      for (const attempt of [1, 2, 3]) {
        const token = newToken();
        const [claimed] = await claim(context, undefined, token);
        assert.deepEqual(claimed && { ...claimed.fence }, { attempt, token });
        await endOnly(context, retryAt(claimed ?? effect, 0));
      }
    },
  },
  {
    name: "outbox claim: never a claimed effect, even after its lease, until it is rescued",
    needs: withTransactions,
    async run(context) {
      const claimed = await putEffectIn(context, "claimed");
      await context.advance(10 * leaseMs);
      assert.deepEqual(await claim(context), []);
      await rescueAll(context);
      await claimOnly(context, claimed);
    },
  },
  {
    name: "outbox claim: never an effect that is started, delivered or dead",
    needs: withTransactions,
    async run(context) {
      for (const state of ["started", "delivered", "dead"] as const) await putEffectIn(context, state);
      await context.advance(hour);
      assert.deepEqual(await claim(context), []);
    },
  },
  {
    name: "outbox claim: many at once claim each effect once",
    needs: withTransactions,
    async run(context) {
      const ids: string[] = [];
      for (let count = 0; count < 12; count += 1) ids.push((await enqueue(context)).id);
      const claims = await race(context, callers, (store) =>
        outboxOf(store).claim([{ effect: effectName, limit: 5 }], newToken(), leaseMs),
      );
      for (const claimed of claims) assert.ok(claimed.length <= 5, "no call may claim more than its limit");
      const claimed = idsOf(claims.flat());
      assert.equal(new Set(claimed).size, claimed.length, "none twice");
      assert.deepEqual([...claimed, ...idsOf(await claim(context))].sort(), ids.sort());
    },
  },
  {
    name: "outbox claim: includes all tenants, and an effect behind another tenant's effects is claimed in turn",
    needs: withTransactions,
    async run(context) {
      const ids = [];
      for (const tenant of ["a", "a", "b", "c"])
        ids.push((await enqueue(context, {}, newKey({ tenant }))).id);
      assert.deepEqual(idsOf(await claim(context)).sort(), ids.sort());
    },
  },
  {
    name: "outbox claim: the lease is counted from the claim, by the store's time",
    needs: withTransactions,
    frozenClock: true,
    async run(context) {
      await enqueue(context);
      await context.advance(hour);
      await claim(context);
      await context.advance(leaseMs - 1);
      assert.deepEqual(await outboxOf(context.store).rescue(10), { unstarted: 0, started: 0 });
      await context.advance(1);
      assert.deepEqual(await outboxOf(context.store).rescue(10), { unstarted: 1, started: 0 });
    },
  },
  {
    name: "outbox claim: a stored result comes with the next claim",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await endOnly(context, deliveryEnds.keep_result(started));
      const kept = await endOnly(context, retryAt(started, 0));
      const again = await claimOnly(context, started);
      sameEffect(again, kept && { ...kept, state: "claimed", fence: again.fence }, "with its result");
      assert.deepEqual(again.result && [...again.result], [...Buffer.from("result")]);
    },
  },
];
