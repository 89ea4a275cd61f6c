/** `outbox.end`: how claims end, what each end changes, and who may end them. */
import assert from "node:assert/strict";
import type { DeliveryEnd, OutboxEffect } from "latchkey/internal";
import { foreignFences, hour, leaseMs, minute, newId, newToken, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, race, timed } from "./check.ts";
import { bytes, keyOf } from "./journal-arrange.ts";
import {
  claim,
  claimNew,
  claimOf,
  claimOnly,
  deliveryEnds,
  type EndEvent,
  effectNow,
  endEvents,
  endOnly,
  enqueue,
  idsOf,
  keepMs,
  leavesEffect,
  outboxOf,
  rescueAll,
  retryAt,
  sameEffect,
  startNew,
  startOnly,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

/** What `deliveryEnds` changes in an effect that was begun to be sent, or was only claimed. */
const outcomes: Readonly<Record<EndEvent, (effect: OutboxEffect) => Partial<OutboxEffect>>> = {
  deliver: () => ({ state: "delivered", result: bytes("result") }),
  keep_result: () => ({ result: bytes("result") }),
  retry: () => ({ state: "pending", lastErrorCode: "socket-lost" }),
  reopen: ({ generation }) => ({
    state: "pending",
    generation: generation + 1,
    downstreamKey: "lk_reopened",
    doubtfulSince: null,
  }),
  give_back: () => ({ state: "pending" }),
  die: () => ({ state: "dead", lastErrorCode: "effect-refused" }),
};

/** Ends after which the claim is no longer valid. */
const lastEvents = endEvents.filter((event) => event !== "keep_result");
const comesBack = (event: EndEvent) => event === "deliver" || event === "keep_result" || event === "die";

/** A claimed effect, whose send was begun if the end allows it. */
function underWay(context: CaseContext, event: EndEvent): Promise<OutboxEffect> {
  return event === "give_back" ? claimNew(context) : startNew(context);
}

async function refusesEnd(
  context: CaseContext,
  effect: OutboxEffect,
  end: DeliveryEnd,
  what: string,
): Promise<void> {
  const ended = await leavesEffect(context, effect, `${end.event} ${what}`, () =>
    outboxOf(context.store).end([end]),
  );
  assert.deepEqual(ended, [], `${end.event} ${what} must be refused`);
}

const effectCases: readonly StoreCase[] = endEvents.map((event) => ({
  name: `outbox end: ${event} changes the fields of that event, and nothing else`,
  needs: withTransactions,
  async run(context) {
    const before = await underWay(context, event);
    await context.advance(minute);
    const end = deliveryEnds[event](before);
    const { result, ...span } = await timed(context, keyOf(before), () => outboxOf(context.store).end([end]));
    assert.deepEqual(result, [before.id]);
    const after = await effectNow(context, before);
    const finishes = event === "deliver" || event === "die";
    if (finishes) isAfter(context, after.finishedAt, span, 0, "finishedAt");
    const returns = comesBack(event) || event === "retry" ? 1 : 0;
    const { finishedAt } = after;
    const expected = {
      ...before,
      ...outcomes[event](before),
      returns,
      finishedAt: finishes ? finishedAt : null,
    };
    sameEffect(after, expected, "only the fields of the event may change");
  },
}));

const repetitions: readonly StoreCase[] = endEvents.map((event) => ({
  name: `outbox end: repeating ${event}, as after a lost reply, returns the same and changes nothing`,
  needs: withTransactions,
  async run(context) {
    const before = await underWay(context, event);
    const end = deliveryEnds[event](before);
    await endOnly(context, end);
    await context.advance(minute);
    const again = await leavesEffect(context, before, "the repetition", () =>
      outboxOf(context.other).end([end]),
    );
    assert.deepEqual(again, [before.id]);
  },
}));

const wrongClaims: readonly StoreCase[] = endEvents.map((event) => ({
  name: `outbox end: ${event} is refused to anyone but the claim`,
  needs: withTransactions,
  async run(context) {
    const before = await underWay(context, event);
    for (const [what, fence] of foreignFences(before.fence)) {
      await refusesEnd(context, before, deliveryEnds[event]({ id: before.id, fence }), `under ${what}`);
    }
    const unknown = deliveryEnds[event]({ ...before, id: newId() });
    assert.deepEqual(await outboxOf(context.store).end([unknown]), []);
    await endOnly(context, deliveryEnds[event](before));
  },
}));

const unclaimed: readonly StoreCase[] = endEvents.map((event) => ({
  name: `outbox end: ${event} is refused without a claim, and under the previous claim`,
  needs: withTransactions,
  async run(context) {
    const effect = await enqueue(context);
    for (const attempt of [0, 1]) {
      const wrongClaim = { id: effect.id, fence: { attempt, token: newToken() } };
      await refusesEnd(context, effect, deliveryEnds[event](wrongClaim), "without a claim");
    }
    const before = await claimOnly(context, effect);
    await endOnly(context, retryAt(before, 0));
    await claimOnly(context, effect);
    await refusesEnd(context, before, deliveryEnds[event](before), "under the previous claim");
  },
}));

const lateEnds: readonly StoreCase[] = endEvents.map((event) => ({
  name: `outbox end: ${event} is accepted after the lease has ended, until the claim is rescued`,
  needs: withTransactions,
  async run(context) {
    const late = await underWay(context, event);
    await context.advance(10 * leaseMs);
    await endOnly(context, deliveryEnds[event](late));
    await context.advance(hour);
    // Effects that are due again must not interfere.
    await outboxOf(context.store).claim([{ effect: late.effect, limit: 9 }], newToken(), 100 * hour);
    const rescued = await underWay(context, event);
    await rescueAll(context);
    await refusesEnd(context, rescued, deliveryEnds[event](rescued), "after a rescue");
  },
}));

const afterOthers: readonly StoreCase[] = lastEvents.flatMap((first) =>
  endEvents
    .filter((event) => event !== first)
    .map((event) => ({
      name: `outbox end: ${event} is refused after ${first}`,
      needs: withTransactions,
      async run(context: CaseContext) {
        const claimed = await claimNew(context);
        await endOnly(context, deliveryEnds[first](claimed));
        await refusesEnd(context, claimed, deliveryEnds[event](claimed), `after ${first}`);
      },
    })),
);

/** An end with this value of `returned`. */
function saying(event: "retry" | "die", returned: boolean, claimed: OutboxEffect): DeliveryEnd {
  const end = deliveryEnds[event](claimed);
  return "returned" in end ? { ...end, returned } : end;
}

const returning: readonly StoreCase[] = (["retry", "die"] as const).map((event) => ({
  name: `outbox end: ${event} counts a send as returned only if it says so`,
  needs: withTransactions,
  async run(context) {
    for (const returned of [true, false]) {
      const started = await startNew(context);
      await endOnly(context, saying(event, returned, started));
      const { sends, returns } = await effectNow(context, started);
      assert.deepEqual([sends, returns], [1, returned ? 1 : 0]);
    }
  },
}));

export const outboxEndCases: readonly StoreCase[] = [
  ...effectCases,
  ...repetitions,
  ...wrongClaims,
  ...unclaimed,
  ...lateEnds,
  ...afterOthers,
  ...returning,
  {
    name: "outbox end: a send whose result was stored is counted as returned once",
    needs: withTransactions,
    async run(context) {
      for (const event of ["deliver", "retry", "die"] as const) {
        const started = await startNew(context);
        await endOnly(context, deliveryEnds.keep_result(started));
        await endOnly(context, deliveryEnds[event](started));
        assert.equal((await effectNow(context, started)).returns, 1, `stored, then ${event}`);
      }
    },
  },
  {
    name: "outbox end: a result that was found without a send counts no return",
    needs: withTransactions,
    async run(context) {
      for (const event of ["deliver", "keep_result"] as const) {
        const claimed = await claimNew(context);
        await endOnly(context, deliveryEnds[event](claimed));
        const { sends, returns, result } = await effectNow(context, claimed);
        assert.deepEqual([sends, returns, result && [...result]], [0, 0, [...bytes("result")]]);
      }
    },
  },
  {
    name: "outbox end: a delivery without a result has none",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await endOnly(context, { ...claimOf(started), event: "deliver", result: null, keepMs });
      const delivered = await effectNow(context, started);
      assert.deepEqual([delivered.state, delivered.result], ["delivered", null]);
    },
  },
  {
    name: "outbox end: an empty result is a result",
    needs: withTransactions,
    async run(context) {
      const result = new Uint8Array();
      const started = await startNew(context);
      await endOnly(context, { ...claimOf(started), event: "keep_result", result });
      await endOnly(context, retryAt(started, 0));
      const again = await claimOnly(context, started);
      assert.ok(again.result !== null && again.result.length === 0);
    },
  },
  {
    name: "outbox end: keep_result leaves the claim and its lease unchanged",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await context.advance(leaseMs / 2);
      await endOnly(context, deliveryEnds.keep_result(started));
      assert.deepEqual(await claim(context), []);
      assert.deepEqual(await outboxOf(context.store).rescue(10), { unstarted: 0, started: 0 });
      await context.advance(leaseMs / 2 + second);
      assert.deepEqual(await outboxOf(context.store).rescue(10), { unstarted: 0, started: 1 });
      assert.deepEqual([...((await effectNow(context, started)).result ?? [])], [...bytes("result")]);
    },
  },
  {
    name: "outbox end: a retry is due after its time, even if it is repeated",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      const retry = retryAt(started, 10 * minute);
      await endOnly(context, retry);
      await context.advance(5 * minute);
      assert.deepEqual(await claim(context), []);
      assert.deepEqual(await outboxOf(context.store).end([retry]), [started.id]);
      await context.advance(5 * minute + second);
      await claimOnly(context, started);
    },
  },
  {
    name: "outbox end: a retry keeps the doubt or proves that there is none",
    needs: withTransactions,
    async run(context) {
      for (const doubtful of [true, false]) {
        const started = await startNew(context);
        await endOnly(context, retryAt(started, hour, { doubtful, returned: true }));
        const { doubtfulSince } = await effectNow(context, started);
        assert.equal(doubtfulSince, doubtful ? started.doubtfulSince : null);
      }
    },
  },
  {
    name: "outbox end: a reopened effect is due at once, each time under another key and generation",
    needs: withTransactions,
    async run(context) {
      let claimed = await startNew(context);
      for (const generation of [1, 2, 3]) {
        const downstreamKey = `lk_generation_${generation}`;
        await endOnly(context, { ...claimOf(claimed), event: "reopen", downstreamKey });
        claimed = await claimOnly(context, claimed);
        assert.deepEqual([claimed.generation, claimed.downstreamKey], [generation, downstreamKey]);
        assert.equal(claimed.doubtfulSince, null);
      }
    },
  },
  {
    name: "outbox end: an effect that is given back is due as before",
    needs: withTransactions,
    async run(context) {
      const early = await enqueue(context);
      await context.advance(minute);
      const late = await enqueue(context);
      await context.advance(minute);
      const [claimed] = await outboxOf(context.store).claim(
        [{ effect: early.effect, limit: 1 }],
        newToken(),
        leaseMs,
      );
      assert.equal(claimed?.id, early.id);
      await endOnly(context, deliveryEnds.give_back(claimed ?? early));
      assert.deepEqual(idsOf(await claim(context)), [early.id, late.id], "first again");
    },
  },
  {
    name: "outbox end: an effect whose send was begun cannot be given back",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await refusesEnd(context, started, deliveryEnds.give_back(started), "of a send that was begun");
    },
  },
  {
    name: "outbox end: many ends of all kinds in one call, each independent of the others",
    needs: withTransactions,
    async run(context) {
      const count = endEvents.length + 2;
      for (let index = 0; index < count; index += 1) await enqueue(context);
      const claimed = await claim(context);
      const [dead, unknown, ...rest] = claimed;
      assert.ok(dead && unknown && rest.length === endEvents.length);
      const ends = endEvents.flatMap((event, index) => {
        const effect = rest[index];
        return effect === undefined ? [] : [deliveryEnds[event](effect)];
      });
      const stale = deliveryEnds.die({ id: dead.id, fence: { ...dead.fence, token: newToken() } });
      const missing = deliveryEnds.die({ ...unknown, id: newId() });
      const ended = await outboxOf(context.store).end([stale, ...ends, missing]);
      assert.deepEqual([...ended].sort(), idsOf(ends).sort());
      for (const [index, event] of endEvents.entries()) {
        const effect = rest[index];
        assert.ok(effect);
        const { state } = await effectNow(context, effect);
        assert.equal(state, outcomes[event](effect).state ?? "claimed", event);
      }
      sameEffect(await effectNow(context, dead), dead, "a stale end must change nothing");
      assert.deepEqual(await outboxOf(context.store).end([]), [], "no ends end nothing");
    },
  },
  {
    name: "outbox end: of two different ends at once exactly one is written",
    needs: withTransactions,
    async run(context) {
      for (let round = 0; round < 5; round += 1) {
        const started = await startNew(context);
        const ends = [deliveryEnds.deliver(started), deliveryEnds.die(started)];
        const answers = await race(context, 2, (store, index) =>
          outboxOf(store).end(ends.slice(index, index + 1)),
        );
        const won = answers.findIndex((answer) => answer.length === 1);
        assert.equal(answers.flat().length, 1, "exactly one");
        const { state } = await effectNow(context, started);
        assert.equal(state, won === 0 ? "delivered" : "dead");
      }
    },
  },
  {
    name: "outbox end: concurrent ends of effects of different claims are all written",
    needs: withTransactions,
    async run(context) {
      const effects: OutboxEffect[] = [];
      for (let count = 0; count < 8; count += 1) effects.push(await startNew(context));
      const answers = await race(context, 4, (store, index) => {
        const own = effects.filter((_, place) => place % 4 === index);
        const ordered = index % 2 === 0 ? own : own.toReversed();
        return outboxOf(store).end(ordered.map(deliveryEnds.deliver));
      });
      assert.deepEqual([...answers.flat()].sort(), idsOf(effects).sort());
    },
  },
  {
    name: "outbox end: a further send after a retry is ended under its own claim",
    needs: withTransactions,
    async run(context) {
      const first = await startNew(context);
      await endOnly(context, retryAt(first, 0, { returned: true }));
      const next = await startOnly(context, await claimOnly(context, first));
      await endOnly(context, deliveryEnds.deliver(next));
      const { sends, returns, fence } = await effectNow(context, first);
      assert.deepEqual([sends, returns, fence.attempt], [2, 2, 2]);
    },
  },
];
