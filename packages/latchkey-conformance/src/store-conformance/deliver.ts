/** `transactions.deliver`: business rows and the end of a delivery commit or roll back together. */
import assert from "node:assert/strict";
import { foreignFences, hour, leaseMs, minute, newId, second } from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { cleanAll, isAfter, timed, unchanged } from "./check.ts";
import {
  answersOf,
  awaitingAnswer,
  delivering,
  deliveryCommit,
  deliveryRequest,
  keptNew,
  losesDelivery,
} from "./deliver-arrange.ts";
import { bytes, isCommitted, keyOf } from "./journal-arrange.ts";
import {
  claim,
  claimNew,
  claimOnly,
  deliveryEnds,
  effectNow,
  endOnly,
  enqueue,
  leavesEffect,
  rescueAll,
  sameEffect,
  startOnly,
} from "./outbox-arrange.ts";
import { newRow, transactional, withTransactions } from "./transactions-arrange.ts";

const quietEnds: readonly StoreCase[] = (["rollback", "abandon"] as const).map((end) => ({
  name: `deliver: ${end} leaves neither rows nor a delivery`,
  needs: withTransactions,
  async run(context) {
    const kept = await keptNew(context);
    const row = newRow();
    const outcome = await leavesEffect(context, kept, end, () =>
      delivering(context, kept, row, () => ({ end, value: "kept" })),
    );
    assert.deepEqual({ ...outcome }, { kind: "rolled_back", value: "kept" });
    assert.ok(!(await isCommitted(context, row)), "the row must be gone");
    assert.equal((await delivering(context, kept, row, () => deliveryCommit())).kind, "committed");
  },
}));

const afterEnds: readonly StoreCase[] = (["deliver", "retry", "reopen", "give_back", "die"] as const).map(
  (event) => ({
    name: `deliver: lost after ${event}, and leaves no row`,
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      await endOnly(context, deliveryEnds[event](claimed));
      await losesDelivery(context, claimed, claimed, `after ${event}`);
    },
  }),
);

export const deliverCases: readonly StoreCase[] = [
  {
    name: "deliver: commits its rows, and the delivery with the result that was stored",
    needs: withTransactions,
    async run(context) {
      const kept = await keptNew(context);
      await context.advance(minute);
      const row = newRow();
      const { result, ...span } = await timed(context, keyOf(kept), () =>
        delivering(context, kept, row, () => deliveryCommit()),
      );
      assert.deepEqual({ ...result }, { kind: "committed", value: "value" });
      assert.ok(await isCommitted(context, row));
      const delivered = await effectNow(context, kept);
      isAfter(context, delivered.finishedAt, span, 0, "finishedAt");
      const { finishedAt } = delivered;
      sameEffect(delivered, { ...kept, state: "delivered", finishedAt }, "delivered");
    },
  },
  ...quietEnds,
  {
    name: "deliver: rethrows the work's error, after everything was rolled back",
    needs: withTransactions,
    async run(context) {
      const kept = await keptNew(context);
      const row = newRow();
      const failure = new Error("the work failed");
      const failing = delivering.bind(null, context, kept, row, () => {
        throw failure;
      });
      await leavesEffect(context, kept, "a failure", () =>
        assert.rejects(failing, (error) => error === failure),
      );
      assert.ok(!(await isCommitted(context, row)));
      assert.equal((await delivering(context, kept, row, () => deliveryCommit())).kind, "committed");
    },
  },
  {
    name: "deliver: lost to anyone but the claim, and leaves no row",
    needs: withTransactions,
    async run(context) {
      const { record, effect } = await awaitingAnswer(context);
      for (const [what, fence] of foreignFences(effect.fence)) {
        await losesDelivery(context, effect, { ...effect, fence }, what);
        await unchanged(context, keyOf(record), what, () =>
          losesDelivery(context, effect, { ...effect, fence }, `answer: ${what}`, answersOf(record)),
        );
      }
      await losesDelivery(context, effect, { ...effect, id: newId() }, "another effect's id");
    },
  },
  ...afterEnds,
  {
    name: "deliver: a second time is lost, and leaves no row",
    needs: withTransactions,
    async run(context) {
      const kept = await keptNew(context);
      assert.equal((await delivering(context, kept, newRow(), () => deliveryCommit())).kind, "committed");
      await losesDelivery(context, kept, kept, "the repetition");
    },
  },
  {
    name: "deliver: accepted after the lease has ended, until the claim is rescued",
    needs: withTransactions,
    async run(context) {
      const late = await keptNew(context);
      await context.advance(leaseMs + second);
      assert.equal((await delivering(context, late, newRow(), () => deliveryCommit())).kind, "committed");
      const rescued = await keptNew(context);
      await rescueAll(context);
      await losesDelivery(context, rescued, rescued, "a claim that was rescued");
      const next = await claimOnly(context, rescued);
      await losesDelivery(context, rescued, rescued, "the previous claim");
      assert.equal((await delivering(context, next, newRow(), () => deliveryCommit())).kind, "committed");
    },
  },
  {
    name: "deliver: an effect whose result was stored under an earlier claim needs no send",
    needs: withTransactions,
    async run(context) {
      const kept = await keptNew(context);
      await rescueAll(context);
      const claimed = await claimOnly(context, kept);
      assert.equal((await delivering(context, claimed, newRow(), () => deliveryCommit())).kind, "committed");
      const { state, sends, returns, result } = await effectNow(context, kept);
      assert.deepEqual([state, sends, returns], ["delivered", 1, 1]);
      assert.deepEqual([...(result ?? [])], [...bytes("result")]);
    },
  },
  {
    name: "deliver: work that never used `tx` commits the delivery",
    needs: withTransactions,
    async run(context) {
      const kept = await keptNew(context);
      const { support } = transactional(context);
      const outcome = await support.deliver(deliveryRequest(kept), async (open) => {
        assert.equal(open.used(), false);
        return deliveryCommit();
      });
      assert.equal(outcome.kind, "committed");
      assert.equal((await effectNow(context, kept)).state, "delivered");
    },
  },
  {
    name: "deliver: the next effect of an ordered aggregate is due once it has committed",
    needs: withTransactions,
    async run(context) {
      const ordered = { aggregate: "order-1", ordered: true } as const;
      const first = await enqueue(context, ordered);
      const next = await enqueue(context, ordered);
      const started = await startOnly(context, await claimOnly(context, first));
      await endOnly(context, deliveryEnds.keep_result(started));
      assert.deepEqual(await claim(context), []);
      assert.equal((await delivering(context, started, newRow(), () => deliveryCommit())).kind, "committed");
      await claimOnly(context, next);
    },
  },
  {
    name: "deliver: the delivered effect is kept for its retention",
    needs: withTransactions,
    async run(context) {
      const kept = await keptNew(context);
      const { support } = transactional(context);
      const request = deliveryRequest(kept, { keepMs: hour });
      assert.equal((await support.deliver(request, async () => deliveryCommit())).kind, "committed");
      await context.advance(hour / 2);
      assert.equal((await cleanAll(context)).effects, 0);
      await context.advance(hour / 2 + second);
      assert.equal((await cleanAll(context)).effects, 1);
    },
  },
];
