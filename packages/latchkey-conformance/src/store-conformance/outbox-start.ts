/** `outbox.start`: the write right before a send. */
import assert from "node:assert/strict";
import type { EffectClaim } from "latchkey/internal";
import { foreignFences, leaseMs, minute, newId, newToken, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, race, timed } from "./check.ts";
import { keyOf } from "./journal-arrange.ts";
import {
  claim,
  claimNew,
  claimOf,
  claimOnly,
  deliveryEnds,
  effectName,
  effectNow,
  endEvents,
  endOnly,
  enqueue,
  leavesEffect,
  outboxOf,
  retryAt,
  sameEffect,
  startNew,
  startOnly,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

function start(context: CaseContext, ...claims: readonly EffectClaim[]): Promise<readonly string[]> {
  return outboxOf(context.store).start(claims.map(claimOf), leaseMs);
}

async function refusesStart(
  context: CaseContext,
  effect: Parameters<typeof leavesEffect>[1],
  claim: EffectClaim,
  what: string,
): Promise<void> {
  const started = await leavesEffect(context, effect, what, () => start(context, claim));
  assert.deepEqual(started, [], `${what} may not send`);
}

const afterEnds: readonly StoreCase[] = endEvents
  .filter((event) => event !== "keep_result")
  .map((event) => ({
    name: `outbox start: refused after ${event}`,
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      await endOnly(context, deliveryEnds[event](claimed));
      await refusesStart(context, claimed, claimed, `a claim that ended by ${event}`);
    },
  }));

export const outboxStartCases: readonly StoreCase[] = [
  {
    name: "outbox start: counts one more send, in doubt from now, and changes nothing else",
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      await context.advance(minute);
      const { result, ...span } = await timed(context, keyOf(claimed), () => start(context, claimed));
      assert.deepEqual(result, [claimed.id]);
      const started = await effectNow(context, claimed);
      isAfter(context, started.doubtfulSince, span, 0, "doubtfulSince");
      const { doubtfulSince } = started;
      sameEffect(started, { ...claimed, state: "started", sends: 1, doubtfulSince }, "a send was begun");
    },
  },
  {
    name: "outbox start: repeating it, as after a lost reply, returns the same and changes nothing",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await context.advance(minute);
      const again = await leavesEffect(context, started, "the repetition", () => start(context, started));
      assert.deepEqual(again, [started.id]);
    },
  },
  {
    name: "outbox start: many repetitions at once count one send",
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      const answers = await race(context, 4, (store) => outboxOf(store).start([claimOf(claimed)], leaseMs));
      for (const answer of answers) assert.deepEqual(answer, [claimed.id]);
      assert.equal((await effectNow(context, claimed)).sends, 1);
    },
  },
  {
    name: "outbox start: refused to anyone but the claim",
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      for (const [what, fence] of foreignFences(claimed.fence)) {
        await refusesStart(context, claimed, { id: claimed.id, fence }, what);
      }
      await refusesStart(context, claimed, { ...claimed, id: newId() }, "another effect's id");
    },
  },
  {
    name: "outbox start: refused for an effect without a claim",
    needs: withTransactions,
    async run(context) {
      const effect = await enqueue(context);
      for (const attempt of [0, 1]) {
        await refusesStart(
          context,
          effect,
          { id: effect.id, fence: { attempt, token: newToken() } },
          "nobody",
        );
      }
    },
  },
  {
    name: "outbox start: refused under the previous claim",
    needs: withTransactions,
    async run(context) {
      const before = await claimNew(context);
      await endOnly(context, retryAt(before, 0));
      await claimOnly(context, before);
      await refusesStart(context, before, before, "the previous claim");
    },
  },
  {
    name: "outbox start: refused after the lease, whether or not the claim was rescued",
    needs: withTransactions,
    async run(context) {
      const claimed = await claimNew(context);
      await context.advance(leaseMs + second);
      await refusesStart(context, claimed, claimed, "a claim whose lease has ended");
      await outboxOf(context.other).rescue(10);
      await refusesStart(context, claimed, claimed, "a claim that was rescued");
    },
  },
  {
    name: "outbox start: a repetition is refused after the lease of the start itself",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await context.advance(leaseMs + second);
      await refusesStart(context, started, started, "a send whose lease has ended");
    },
  },
  {
    name: "outbox start: accepted until the lease ends, and refused at its end",
    needs: withTransactions,
    frozenClock: true,
    async run(context) {
      const late = await claimNew(context);
      await context.advance(leaseMs - 1);
      const soon = await claimNew(context);
      await context.advance(1);
      await refusesStart(context, late, late, "a claim at the end of its lease");
      await context.advance(leaseMs - 2);
      await startOnly(context, soon);
    },
  },
  {
    name: "outbox start: extends the lease from now",
    needs: withTransactions,
    async run(context) {
      await enqueue(context);
      const [claimed] = await outboxOf(context.store).claim(
        [{ effect: effectName, limit: 1 }],
        newToken(),
        minute,
      );
      assert.ok(claimed);
      await startOnly(context, claimed);
      await context.advance(leaseMs / 2);
      assert.deepEqual(await outboxOf(context.store).rescue(10), { unstarted: 0, started: 0 });
      await context.advance(leaseMs / 2 + second);
      assert.deepEqual(await outboxOf(context.store).rescue(10), { unstarted: 0, started: 1 });
    },
  },
  {
    name: "outbox start: a second send keeps the time since which the first is in doubt",
    needs: withTransactions,
    async run(context) {
      const first = await startNew(context);
      await endOnly(context, retryAt(first, 0, { doubtful: true, returned: true }));
      await context.advance(minute);
      const second_ = await startOnly(context, await claimOnly(context, first));
      assert.deepEqual([second_.sends, second_.doubtfulSince], [2, first.doubtfulSince]);
    },
  },
  {
    name: "outbox start: after sends that have not happened, the doubt begins again",
    needs: withTransactions,
    async run(context) {
      const first = await startNew(context);
      await endOnly(context, retryAt(first, 0, { doubtful: false, returned: true }));
      await context.advance(minute);
      const second_ = await startOnly(context, await claimOnly(context, first));
      assert.equal(second_.sends, 2);
      assert.ok((second_.doubtfulSince ?? 0) >= (first.doubtfulSince ?? 0) + minute, "from the second send");
    },
  },
  ...afterEnds,
  {
    name: "outbox start: many claims in one call, each independent of the others",
    needs: withTransactions,
    async run(context) {
      for (let count = 0; count < 3; count += 1) await enqueue(context);
      const [one, two, three] = await claim(context);
      assert.ok(one && two && three);
      const stale = { ...two, fence: { ...two.fence, token: newToken() } };
      const started = await leavesEffect(context, two, "the start of the others", () =>
        start(context, one, stale, three, { id: newId(), fence: one.fence }),
      );
      assert.deepEqual([...started].sort(), [one.id, three.id].sort());
      for (const effect of [one, three]) assert.equal((await effectNow(context, effect)).state, "started");
      assert.deepEqual(await start(context), [], "no claims start nothing");
    },
  },
];
