/** A delivery while it is open, and what others see and do meanwhile. */
import assert from "node:assert/strict";
import { leaseMs, readRecord, second } from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { sameRecord } from "./check.ts";
import { answersOf, awaitingAnswer, delivering, deliveryCommit, keptNew } from "./deliver-arrange.ts";
import { isCommitted, keyOf } from "./journal-arrange.ts";
import { claim, claimOnly, effectNow, outboxOf, rescueAll, sameEffect } from "./outbox-arrange.ts";
import { newRow, withImmediateAnswer, withTransactions } from "./transactions-arrange.ts";

export const openDeliveryCases: readonly StoreCase[] = [
  {
    name: "deliver: a delivery whose claim is rescued while it is open is lost, and leaves no row",
    needs: withImmediateAnswer,
    async run(context) {
      const kept = await keptNew(context);
      const row = newRow();
      const outcome = await delivering(context, kept, row, async () => {
        await rescueAll(context);
        return deliveryCommit();
      });
      assert.equal(outcome.kind, "lost");
      assert.ok(!(await isCommitted(context, row)), "no row may be left");
      await claimOnly(context, kept);
    },
  },
  {
    name: "deliver: others see nothing of it before its commit, and reading does not wait",
    needs: withImmediateAnswer,
    async run(context) {
      const { record, effect } = await awaitingAnswer(context);
      const row = newRow();
      await delivering(context, effect, row, async () => {
        assert.ok(!(await isCommitted(context, row)));
        sameEffect(await effectNow(context, effect), effect, "it must be unchanged");
        sameRecord(await readRecord(context, keyOf(record)), record, "it must be unchanged");
        assert.deepEqual(await claim(context), []);
        return answersOf(record);
      });
      assert.equal((await effectNow(context, effect)).state, "delivered");
    },
  },
  {
    name: "deliver: of many under one claim, all open at once, exactly one commits",
    needs: withImmediateAnswer,
    async run(context) {
      const kept = await keptNew(context);
      const { promise: allOpen, resolve } = Promise.withResolvers<void>();
      const rows = [newRow(), newRow(), newRow()];
      let open = 0;
      const outcomes = await Promise.all(
        rows.map((row) =>
          delivering(context, kept, row, async () => {
            open += 1;
            if (open === rows.length) resolve();
            await allOpen;
            return deliveryCommit();
          }),
        ),
      );
      const kinds = outcomes.map(({ kind }) => kind);
      assert.equal(kinds.filter((kind) => kind === "committed").length, 1);
      const there = await Promise.all(rows.map((row) => isCommitted(context, row)));
      assert.deepEqual(
        there,
        kinds.map((kind) => kind === "committed"),
        "only the rows of the one that committed",
      );
    },
  },
  {
    name: "deliver: a rescue and a delivery at once leave the state that was returned",
    needs: withTransactions,
    async run(context) {
      const kept = await keptNew(context);
      await context.advance(leaseMs + second);
      const row = newRow();
      const [outcome] = await Promise.all([
        delivering(context, kept, row, () => deliveryCommit()),
        outboxOf(context.other).rescue(10),
      ]);
      const committed = outcome.kind === "committed";
      assert.equal(await isCommitted(context, row), committed);
      assert.equal((await effectNow(context, kept)).state, committed ? "delivered" : "pending");
    },
  },
];
