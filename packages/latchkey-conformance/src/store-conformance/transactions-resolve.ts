/** `transactions.resolve`: the outcome of a COMMIT in doubt. */
import assert from "node:assert/strict";
import { day, foreignFences, minute, newId, newKey, newLife, putForgettable, second } from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { unchanged } from "./check.ts";
import {
  commitOf,
  newRow,
  transactional,
  withImmediateAnswer,
  withTransactions,
  writing,
} from "./transactions-arrange.ts";

const longMs = 10 * second;
const shortMs = 30;

export const transactionResolveCases: readonly StoreCase[] = [
  {
    name: "resolve: reports a transaction that committed",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const commit = commitOf(key, { retention: { retentionMs: minute, forgetAfterMs: day } });
      const all = transactional(context);
      await writing(all, key, newRow(), () => commit);
      const { id, fence } = commit.life;
      const ask = () => all.otherSupport.resolve(key, id, fence, longMs);
      assert.equal(await ask(), "committed");
      await context.advance(2 * minute);
      assert.equal(await ask(), "committed", "even past its expiry");
      await context.store.clean(10);
      assert.equal(await ask(), "committed", "even if its answer is purged");
    },
  },
  {
    name: "resolve: reports a transaction that rolled back, and inserts nothing",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const { id, fence } = newLife(key);
      const all = transactional(context);
      await writing(all, key, newRow(), () => ({ end: "rollback", value: "" }));
      const ask = () => all.otherSupport.resolve(key, id, fence, longMs);
      assert.equal(await unchanged(context, key, "resolving", ask), "rolled_back");
      const outcome = await writing(all, key, newRow(), () => commitOf(key));
      assert.equal(outcome.kind, "committed", "the key must still be free");
    },
  },
  {
    name: "resolve: does not count another transaction's record as its own",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const commit = commitOf(key);
      const all = transactional(context);
      await writing(all, key, newRow(), () => commit);
      const { id, fence } = commit.life;
      assert.equal(await all.otherSupport.resolve(key, newId(), fence, longMs), "rolled_back");
      for (const [what, foreign] of foreignFences(fence)) {
        assert.equal(await all.otherSupport.resolve(key, id, foreign, longMs), "rolled_back", what);
      }
    },
  },
  {
    name: "resolve: does not count the record of an earlier life as its own",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      await putForgettable(context, key);
      const { id, fence } = newLife(key);
      const { otherSupport } = transactional(context);
      assert.equal(await otherSupport.resolve(key, id, fence, longMs), "rolled_back");
    },
  },
  {
    name: "resolve: in doubt while the transaction can still commit",
    needs: withImmediateAnswer,
    async run(context) {
      const key = newKey();
      const commit = commitOf(key);
      const { id, fence } = commit.life;
      const all = transactional(context);
      const outcome = await writing(all, key, newRow(), async () => {
        assert.equal(await all.otherSupport.resolve(key, id, fence, shortMs), "in_doubt");
        return commit;
      });
      assert.equal(outcome.kind, "committed");
      assert.equal(await all.otherSupport.resolve(key, id, fence, longMs), "committed");
    },
  },
  ...(["commit", "rollback"] as const).map(
    (end): StoreCase => ({
      name: `resolve: waits for an open transaction that then ends with ${end}`,
      needs: withImmediateAnswer,
      async run(context) {
        const key = newKey();
        const commit = commitOf(key);
        const { id, fence } = commit.life;
        const all = transactional(context);
        let answer: Promise<string> = Promise.resolve("not asked");
        await writing(all, key, newRow(), async () => {
          answer = all.otherSupport.resolve(key, id, fence, minute);
          for (let round = 0; round < 20; round += 1) await context.store.read(key);
          return end === "commit" ? commit : { end, value: "" };
        });
        assert.equal(await answer, end === "commit" ? "committed" : "rolled_back");
      },
    }),
  ),
];
