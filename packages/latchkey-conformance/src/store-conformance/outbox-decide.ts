/** `outbox.decide`: a person's decision about a dead effect. */
import assert from "node:assert/strict";
import type { DeadVerdict, EffectState, OutboxEffect } from "latchkey/internal";
import { hour, minute, newId } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { cleanAll, isAfter, race, timed } from "./check.ts";
import { bytes, keyOf } from "./journal-arrange.ts";
import {
  claim,
  claimOnly,
  deadNote,
  deliveryEnds,
  effectNow,
  effectStates,
  endOnly,
  keepMs,
  leavesEffect,
  outboxOf,
  putEffectIn,
  sameEffect,
  startNew,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

const redrive = { event: "redrive", doubt: "kept" } as const satisfies DeadVerdict;
const clearedRedrive = { event: "redrive", doubt: "cleared" } as const satisfies DeadVerdict;
const discard = { event: "discard", keepMs } as const satisfies DeadVerdict;
const decisions: readonly (readonly [what: string, decision: DeadVerdict])[] = [
  ["redrive with the doubt", redrive],
  ["redrive without the doubt", clearedRedrive],
  ["discard", discard],
];

/** A decision about the death of the effect as given. */
function decide(context: CaseContext, { id, fence }: OutboxEffect, decision: DeadVerdict, note = deadNote()) {
  return outboxOf(context.store).decide(id, { ...decision, attempt: fence.attempt }, note);
}

const notDead: readonly StoreCase[] = effectStates
  .filter((state): state is Exclude<EffectState, "dead"> => state !== "dead")
  .map((state) => ({
    name: `outbox decide: refused for an effect that is ${state}`,
    needs: withTransactions,
    async run(context) {
      const effect = await putEffectIn(context, state);
      for (const [what, decision] of decisions) {
        const decided = await leavesEffect(context, effect, what, () => decide(context, effect, decision));
        assert.equal(decided, false, what);
      }
    },
  }));

const repeated: readonly StoreCase[] = decisions.map(([what, decision]) => ({
  name: `outbox decide: repeating ${what}, as after a lost reply, is true and changes nothing`,
  needs: withTransactions,
  async run(context) {
    const dead = await putEffectIn(context, "dead");
    const note = deadNote();
    assert.equal(await decide(context, dead, decision, note), true);
    await context.advance(minute);
    const again = await leavesEffect(context, dead, "the repetition", () =>
      decide(context, dead, decision, note),
    );
    assert.equal(again, true);
  },
}));

const endedBefore: readonly StoreCase[] = decisions.map(([what, decision]) => ({
  name: `outbox decide: after ${what}, repeating the end before it returns the same and changes nothing`,
  needs: withTransactions,
  async run(context) {
    const started = await startNew(context);
    const end = deliveryEnds.die(started);
    await endOnly(context, end);
    assert.equal(await decide(context, started, decision), true);
    const again = () => outboxOf(context.other).end([end]);
    assert.deepEqual(await leavesEffect(context, started, "the repetition", again), [started.id]);
  },
}));

/** Decisions about one death that arrive when the effect has been redriven and has died again. */
const late: readonly StoreCase[] = decisions.flatMap(([what, decision]) =>
  ["with its attempt", "without an attempt"].map((how) => ({
    name: `outbox decide: ${what} ${how}, about an earlier death, is refused`,
    needs: withTransactions,
    async run(context) {
      const dead = await putEffectIn(context, "dead");
      const first = how === "with its attempt" ? dead.fence.attempt : null;
      const decideOn = (attempt: number | null) =>
        outboxOf(context.store).decide(dead.id, { ...decision, attempt }, deadNote());
      assert.equal(await decide(context, dead, redrive), true);
      const second = await claimOnly(context, dead);
      await endOnly(context, deliveryEnds.die(second));
      assert.equal(await leavesEffect(context, dead, "the late decision", () => decideOn(first)), false);
      const entries = await context.store.settlement.audit(keyOf(dead));
      assert.equal(entries.length, 1, "it must have no audit row");
      assert.equal(await decideOn(second.fence.attempt), true, "about the latest death");
    },
  })),
);

export const outboxDecideCases: readonly StoreCase[] = [
  {
    name: "outbox decide: a redriven effect is due at once, with its sends counted from zero, with or without the doubt",
    needs: withTransactions,
    async run(context) {
      for (const decision of [redrive, clearedRedrive]) {
        const dead = await putEffectIn(context, "dead");
        assert.ok(dead.doubtfulSince !== null && dead.sends === 1 && dead.returns === 1);
        await context.advance(hour);
        assert.deepEqual(await claim(context), []);
        assert.equal(await decide(context, dead, decision), true);
        const doubtfulSince = decision.doubt === "kept" ? dead.doubtfulSince : null;
        const counted = { sends: 0, returns: 0, finishedAt: null, doubtfulSince };
        const { lastErrorCode, ...pending } = { ...dead, ...counted, state: "pending" } as const;
        const after = await effectNow(context, dead);
        sameEffect(after, { ...pending, lastErrorCode: after.lastErrorCode }, "pending again");
        await endOnly(context, deliveryEnds.deliver(await claimOnly(context, dead)));
        assert.notEqual(lastErrorCode, null);
      }
    },
  },
  {
    name: "outbox decide: a redriven effect keeps its result",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      await endOnly(context, deliveryEnds.keep_result(started));
      await endOnly(context, deliveryEnds.die(started));
      assert.equal(await decide(context, started, redrive), true);
      assert.deepEqual([...((await claimOnly(context, started)).result ?? [])], [...bytes("result")]);
    },
  },
  {
    name: "outbox decide: a discarded effect counts as delivered now, and is kept for its retention",
    needs: withTransactions,
    async run(context) {
      const dead = await putEffectIn(context, "dead");
      await context.advance(hour);
      const { result, ...span } = await timed(context, keyOf(dead), () => decide(context, dead, discard));
      assert.equal(result, true);
      const after = await effectNow(context, dead);
      isAfter(context, after.finishedAt, span, 0, "finishedAt");
      const { finishedAt, lastErrorCode } = after;
      sameEffect(after, { ...dead, state: "delivered", finishedAt, lastErrorCode }, "delivered");
      assert.deepEqual(await claim(context), []);
      await context.advance(keepMs / 2);
      assert.equal((await cleanAll(context)).effects, 0);
      await context.advance(keepMs);
      assert.equal((await cleanAll(context)).effects, 1);
    },
  },
  {
    name: "outbox decide: its audit row records the decision and the effect",
    needs: withTransactions,
    async run(context) {
      for (const [decision, to] of [
        [discard, "delivered"],
        [redrive, "pending"],
      ] as const) {
        const dead = await putEffectIn(context, "dead");
        const note = deadNote();
        await timed(context, keyOf(dead), () => decide(context, dead, decision, note));
        const [entry] = await context.store.settlement.audit(keyOf(dead));
        const { at: _, ...written } = entry ?? {};
        const what = { key: keyOf(dead), recordId: dead.recordId, effectId: dead.id };
        const expected = { ...note, ...what, event: decision.event, from: "dead", to, proof: "operator" };
        assert.deepEqual(written, expected);
      }
    },
  },
  ...notDead,
  {
    name: "outbox decide: refused for an effect that does not exist",
    needs: withTransactions,
    async run(context) {
      const dead = await putEffectIn(context, "dead");
      const decided = () =>
        outboxOf(context.store).decide(newId(), { ...redrive, attempt: null }, deadNote());
      assert.equal(await leavesEffect(context, dead, "another id", decided), false);
    },
  },
  ...repeated,
  ...endedBefore,
  {
    name: "outbox decide: a repetition does not redrive an effect that has died again since",
    needs: withTransactions,
    async run(context) {
      const dead = await putEffectIn(context, "dead");
      const note = deadNote();
      assert.equal(await decide(context, dead, redrive, note), true);
      const second = await claimOnly(context, dead);
      await endOnly(context, deliveryEnds.die(second));
      const again = () => decide(context, dead, redrive, note);
      assert.equal(await leavesEffect(context, dead, "the repetition", again), true);
      assert.equal(await decide(context, second, redrive), true, "another decision is a different one");
      await claimOnly(context, dead);
    },
  },
  ...late,
  {
    name: "outbox decide: without an attempt, a decision about an effect that a confirmation has revived since is refused",
    needs: withTransactions,
    async run(context) {
      const dead = await putEffectIn(context, "dead");
      const confirmation = { id: dead.id, generation: dead.generation, result: bytes("result") };
      const note = { ...deadNote(), proof: "webhook" };
      assert.equal(await outboxOf(context.store).confirm(confirmation, note), true);
      await endOnly(context, deliveryEnds.die(await claimOnly(context, dead)));
      const decided = () =>
        outboxOf(context.store).decide(dead.id, { ...discard, attempt: null }, deadNote());
      assert.equal(await leavesEffect(context, dead, "the late decision", decided), false);
    },
  },
  {
    name: "outbox decide: the audit id of a decision about another effect decides nothing",
    needs: withTransactions,
    async run(context) {
      const [one, two] = [await putEffectIn(context, "dead"), await putEffectIn(context, "dead")];
      const note = deadNote();
      assert.equal(await decide(context, one, discard, note), true);
      // A store may reject this as the programming error it is.
      const decided = () => decide(context, two, discard, note).catch(() => false);
      assert.equal(await leavesEffect(context, two, "another effect's audit id", decided), false);
    },
  },
  {
    name: "outbox decide: of many decisions at once exactly one is written",
    needs: withTransactions,
    async run(context) {
      const dead = await putEffectIn(context, "dead");
      const answers = await race(context, 4, (store, index) =>
        outboxOf(store).decide(dead.id, { ...(index < 2 ? redrive : discard), attempt: null }, deadNote()),
      );
      const won = answers.indexOf(true);
      assert.equal(answers.filter(Boolean).length, 1);
      assert.equal((await effectNow(context, dead)).state, won < 2 ? "pending" : "delivered");
    },
  },
  {
    name: "outbox decide: with and without a reason",
    needs: withTransactions,
    async run(context) {
      for (const reason of [null, "", 'it\'s "gone"']) {
        const dead = await putEffectIn(context, "dead");
        assert.equal(
          await decide(context, dead, { event: "discard", keepMs: hour }, deadNote({ reason })),
          true,
        );
      }
      await context.advance(2 * hour);
      assert.equal((await cleanAll(context)).effects, 3);
    },
  },
];
