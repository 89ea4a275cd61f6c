/** `outbox.rescue`: claims whose leases have ended. */
import assert from "node:assert/strict";
import { day, leaseMs, minute, newToken, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { race } from "./check.ts";
import {
  claimAtMost,
  claimNew,
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
  startOnly,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

const none = { unstarted: 0, started: 0 };

const rescue = (context: CaseContext, limit = 100) => outboxOf(context.store).rescue(limit);

export const outboxRescueCases: readonly StoreCase[] = [
  {
    name: "outbox rescue: an effect that was claimed and not sent is free again, unchanged",
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      assert.deepEqual(await rescue(context), none, "its lease has not ended");
      await context.advance(leaseMs + second);
      assert.deepEqual(await rescue(context), { unstarted: 1, started: 0 });
      sameEffect(await effectNow(context, claimed), { ...claimed, state: "pending" }, "pending again");
      assert.equal((await claimOnly(context, claimed)).fence.attempt, 2);
    },
  },
  {
    name: "outbox rescue: an effect whose send was begun is due at once, and in doubt",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await context.advance(leaseMs + second);
      assert.deepEqual(await rescue(context), { unstarted: 0, started: 1 });
      sameEffect(await effectNow(context, started), { ...started, state: "pending" }, "pending, in doubt");
      const again = await startOnly(context, await claimOnly(context, started));
      assert.deepEqual([again.sends, again.returns, again.doubtfulSince], [2, 0, started.doubtfulSince]);
    },
  },
  {
    name: "outbox rescue: at the end of the lease, not a millisecond earlier",
    needs: withTransactions,
    frozenClock: true,
    async run(context) {
      await startNew(context);
      await context.advance(leaseMs - 1);
      assert.deepEqual(await rescue(context), none);
      await context.advance(1);
      assert.deepEqual(await rescue(context), { unstarted: 0, started: 1 });
    },
  },
  {
    name: "outbox rescue: leaves effects without a claim, however old they are",
    needs: withTransactions,
    async run(context) {
      for (const state of ["delivered", "dead"] as const) await putEffectIn(context, state);
      const retried = await startNew(context);
      await endOnly(context, retryAt(retried, minute));
      const given = await claimNew(context, { effect: effectName });
      await endOnly(context, deliveryEnds.give_back(given));
      await context.advance(10 * day);
      assert.deepEqual(await rescue(context), none);
    },
  },
  {
    name: "outbox rescue: at most `limit`, oldest first",
    needs: withTransactions,
    async run(context) {
      const ids: string[] = [];
      for (let count = 0; count < 5; count += 1) {
        ids.push((await claimNew(context)).id);
        await context.advance(second);
      }
      await context.advance(leaseMs);
      const free = async () => {
        assert.deepEqual(await rescue(context, 2), { unstarted: 2, started: 0 });
        return idsOf(await claimAtMost(context, 9)).sort();
      };
      assert.deepEqual(await free(), ids.slice(0, 2).sort());
      assert.deepEqual(await free(), ids.slice(2, 4).sort());
      assert.deepEqual(await rescue(context, 2), { unstarted: 1, started: 0 });
      assert.deepEqual(await rescue(context, 2), none);
    },
  },
  {
    name: "outbox rescue: covers every definition and both kinds of claims at once",
    needs: withTransactions,
    async run(context) {
      for (const effect of ["one", "two"]) {
        await enqueue(context, { effect });
        const [claimed] = await outboxOf(context.store).claim([{ effect, limit: 1 }], newToken(), leaseMs);
        assert.ok(claimed);
        if (effect === "two") await startOnly(context, claimed);
      }
      await context.advance(leaseMs + second);
      assert.deepEqual(await rescue(context), { unstarted: 1, started: 1 });
    },
  },
  {
    name: "outbox rescue: leases of different lengths end each at its own time",
    needs: withTransactions,
    async run(context) {
      for (const [effect, lease] of [
        ["long", 10 * minute],
        ["short", minute],
      ] as const) {
        await enqueue(context, { effect });
        await outboxOf(context.store).claim([{ effect, limit: 1 }], newToken(), lease);
      }
      await context.advance(2 * minute);
      assert.deepEqual(await rescue(context), { unstarted: 1, started: 0 });
      const wants = ["long", "short"].map((effect) => ({ effect, limit: 1 }));
      const claimed = await outboxOf(context.store).claim(wants, newToken(), leaseMs);
      assert.deepEqual(
        claimed.map(({ effect }) => effect),
        ["short"],
      );
    },
  },
  {
    name: "outbox rescue: many at once release each claim once",
    needs: withTransactions,
    async run(context) {
      for (let count = 0; count < 6; count += 1) await claimNew(context);
      await context.advance(leaseMs + second);
      const reports = await race(context, 4, (store) => outboxOf(store).rescue(100));
      const freed = reports.reduce((sum, { unstarted, started }) => sum + unstarted + started, 0);
      assert.equal(freed + (await rescue(context)).unstarted, 6);
    },
  },
  {
    name: "outbox rescue: a rescue and the end of its send at once leave the state that was returned",
    needs: withTransactions,
    async run(context) {
      for (let round = 0; round < 5; round += 1) {
        const started = await startNew(context);
        await context.advance(leaseMs + second);
        const rescued = outboxOf(context.other).rescue(10);
        const ended = await outboxOf(context.store).end([deliveryEnds.deliver(started)]);
        await rescued;
        const { state } = await effectNow(context, started);
        assert.equal(state, ended.length === 1 ? "delivered" : "pending");
        if (state === "pending")
          await endOnly(context, deliveryEnds.deliver(await claimOnly(context, started)));
      }
    },
  },
  {
    name: "outbox rescue: a stored result stays",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await endOnly(context, deliveryEnds.keep_result(started));
      assert.deepEqual(await rescueAll(context), { unstarted: 0, started: 1 });
      const { result, returns } = await claimOnly(context, started);
      assert.deepEqual([result?.length, returns], ["result".length, 1]);
    },
  },
  {
    name: "outbox rescue: an effect that has been claimed again since is left alone",
    needs: withTransactions,
    async run(context) {
      const before = await claimNew(context);
      await context.advance(leaseMs + second);
      await rescue(context);
      const again = await claimOnly(context, before);
      assert.deepEqual(await rescue(context), none);
      sameEffect(await effectNow(context, again), again, "it stays claimed");
    },
  },
];
