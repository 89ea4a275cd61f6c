/** `outbox.claim` that also starts, and what happens to a send that it began. */
import assert from "node:assert/strict";
import type { OutboxEffect } from "latchkey/internal";
import { hour, minute, newToken } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, timed } from "./check.ts";
import { keyOf } from "./journal-arrange.ts";
import {
  claim,
  claimNew,
  claimOf,
  deliveryEnds,
  effectName,
  effectNow,
  endOnly,
  enqueue,
  idsOf,
  leavesEffect,
  outboxOf,
  rescueAll,
  retryAt,
  sameEffect,
  startNew,
  startOnly,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

const starting = [{ effect: effectName, limit: 100, starts: true }];

/** Claims what is due, which must be this effect only, by a claim that starts. */
async function claimStarting(
  context: CaseContext,
  { id }: { readonly id: string },
  token = newToken(),
): Promise<OutboxEffect> {
  const [claimed, ...more] = await claim(context, starting, token);
  assert.ok(claimed && more.length === 0, "exactly one effect must be due");
  assert.equal(claimed.id, id, "it must be the one that is due");
  return claimed;
}

const unsent = (claimed: OutboxEffect) =>
  ({ ...claimOf(claimed), event: "give_back", unsent: true }) as const;

export const outboxStartingClaimCases: readonly StoreCase[] = [
  {
    name: "outbox claim: a claim that starts counts a send, in doubt from now, and changes nothing else",
    needs: withTransactions,
    async run(context) {
      const effect = await enqueue(context);
      await context.advance(minute);
      const token = newToken();
      const { result: claimed, ...span } = await timed(context, keyOf(effect), () =>
        claimStarting(context, effect, token),
      );
      const { doubtfulSince } = claimed;
      isAfter(context, doubtfulSince, span, 0, "doubtfulSince");
      const fence = { attempt: 1, token };
      sameEffect(claimed, { ...effect, state: "started", fence, sends: 1, doubtfulSince }, "as returned");
      sameEffect(await effectNow(context, effect), claimed, "stored as returned");
      await leavesEffect(context, claimed, "a start after it", () => startOnly(context, claimed));
    },
  },
  {
    name: "outbox claim: a claim that starts does not start an effect in doubt",
    needs: withTransactions,
    async run(context) {
      const first = await startNew(context);
      await endOnly(context, retryAt(first, 0, { doubtful: true, returned: true }));
      await context.advance(minute);
      const before = await effectNow(context, first);
      const claimed = await claimStarting(context, first);
      sameEffect(claimed, { ...before, state: "claimed", fence: claimed.fence }, "claimed and not started");
      assert.equal((await startOnly(context, claimed)).sends, 2);
    },
  },
  {
    name: "outbox claim: a claim that starts does not start an effect that has its result",
    needs: withTransactions,
    async run(context) {
      const first = await startNew(context);
      await endOnly(context, deliveryEnds.keep_result(first));
      await endOnly(context, retryAt(first, 0, { doubtful: false }));
      const claimed = await claimStarting(context, first);
      assert.deepEqual([claimed.state, claimed.sends, claimed.doubtfulSince], ["claimed", 1, null]);
    },
  },
  {
    name: "outbox claim: starts only the definitions for which it is asked to",
    needs: withTransactions,
    async run(context) {
      for (const effect of ["one", "two"]) await enqueue(context, { effect });
      const wants = [
        { effect: "one", limit: 5, starts: true },
        { effect: "two", limit: 5, starts: false },
      ];
      const states = (await claim(context, wants)).map(({ effect, state }) => [effect, state]);
      assert.deepEqual(
        new Map(states as [string, string][]),
        new Map([
          ["one", "started"],
          ["two", "claimed"],
        ]),
      );
    },
  },
  {
    name: "outbox claim: an effect that it has started is rescued as started, and in doubt",
    needs: withTransactions,
    async run(context) {
      const started = await claimStarting(context, await enqueue(context));
      assert.deepEqual(await rescueAll(context), { unstarted: 0, started: 1 });
      const again = await claimStarting(context, started);
      const { state, sends, returns, doubtfulSince } = again;
      assert.deepEqual([state, sends, returns, doubtfulSince], ["claimed", 1, 0, started.doubtfulSince]);
    },
  },
  {
    name: "outbox end: a send that a claim began is counted as returned once",
    needs: withTransactions,
    async run(context) {
      const started = await claimStarting(context, await enqueue(context));
      await endOnly(context, deliveryEnds.deliver(started));
      const { state, sends, returns } = await effectNow(context, started);
      assert.deepEqual([state, sends, returns], ["delivered", 1, 1]);
    },
  },
  {
    name: "outbox end: an effect that a claim has started and not sent is given back unchanged",
    needs: withTransactions,
    async run(context) {
      const first = await startNew(context);
      await endOnly(context, retryAt(first, hour, { doubtful: false, returned: true }));
      await context.advance(2 * hour);
      const before = await effectNow(context, first);
      const late = await enqueue(context);
      const claimed = (await claim(context, starting)).find(({ id }) => id === first.id);
      assert.ok(claimed?.state === "started" && claimed.sends === 2);
      sameEffect(
        await endOnly(context, unsent(claimed)),
        { ...before, fence: claimed.fence },
        "it must be unchanged",
      );
      await leavesEffect(context, first, "the repetition", async () =>
        assert.deepEqual(await outboxOf(context.store).end([unsent(claimed)]), [first.id]),
      );
      await rescueAll(context);
      assert.equal(idsOf(await claim(context))[0], first.id, `due before ${late.id}`);
    },
  },
  {
    name: "outbox end: a start without a send is given back, with the doubt from before it",
    needs: withTransactions,
    async run(context) {
      const first = await startNew(context);
      await endOnly(context, retryAt(first, 0, { doubtful: true, returned: true }));
      await context.advance(minute);
      const before = await effectNow(context, first);
      assert.ok(before.doubtfulSince !== null);
      const started = await startOnly(context, await claimStarting(context, first));
      assert.equal(started.sends, 2);
      const given = await endOnly(context, { ...unsent(started), doubtful: true });
      sameEffect(given, { ...before, fence: started.fence }, "it must be unchanged");
    },
  },
  {
    name: "outbox end: a start without a send is given back without doubt, if there was none before",
    needs: withTransactions,
    async run(context) {
      const effect = await enqueue(context);
      const [claimed, ...more] = await claim(context);
      assert.ok(claimed && more.length === 0);
      const started = await startOnly(context, claimed);
      const given = await endOnly(context, { ...unsent(started), doubtful: false });
      sameEffect(given, { ...effect, fence: started.fence }, "it must be unchanged");
    },
  },
  {
    name: "outbox end: a send that a claim began and that was not made counts for nothing, however the claim ends",
    needs: withTransactions,
    async run(context) {
      for (const event of ["retry", "die"] as const) {
        const claimed = await claimStarting(context, await enqueue(context));
        const common = {
          ...claimOf(claimed),
          errorCode: "unreadable",
          returned: false,
          unsent: true,
        };
        const end =
          event === "die"
            ? ({ ...common, event } as const)
            : ({ ...common, event, afterMs: hour, doubtful: false } as const);
        assert.deepEqual(await outboxOf(context.store).end([end]), [claimed.id]);
        const { state, sends, returns, doubtfulSince } = await effectNow(context, claimed);
        const expected = [event === "die" ? "dead" : "pending", 0, 0, null];
        assert.deepEqual([state, sends, returns, doubtfulSince], expected, event);
      }
    },
  },
  {
    name: "outbox end: an effect that was not started is given back unchanged, whatever the end says about a send",
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      await endOnly(context, unsent(claimed));
      sameEffect(await effectNow(context, claimed), { ...claimed, state: "pending" }, "it must be unchanged");
    },
  },
];
