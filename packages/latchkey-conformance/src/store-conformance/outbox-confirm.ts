/** `outbox.confirm`: the other service reports that an effect has happened, before the delivery knows. */
import assert from "node:assert/strict";
import type { OutboxEffect } from "latchkey/internal";
import { minute, newId } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { race } from "./check.ts";
import { bytes, keyOf } from "./journal-arrange.ts";
import {
  claim,
  claimOnly,
  deadNote,
  deliveryEnds,
  effectNow,
  endOnly,
  keepMs,
  leavesEffect,
  outboxOf,
  putEffectIn,
  sameEffect,
  startNew,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

const confirmNote = () => ({ ...deadNote(), proof: "webhook" });

function confirm(context: CaseContext, { id, generation }: OutboxEffect, note = confirmNote()) {
  return outboxOf(context.store).confirm({ id, generation, result: bytes("confirmed") }, note);
}

function resultText({ result }: OutboxEffect): string {
  return Buffer.from(result ?? []).toString();
}

const confirmedText = Buffer.from(bytes("confirmed")).toString();

const waiting: readonly StoreCase[] = (["pending", "claimed", "dead"] as const).map((state) => ({
  name: `outbox confirm: an effect that is ${state} becomes due with the result, and gets an audit row`,
  needs: withTransactions,
  async run(context) {
    const before = await putEffectIn(context, state);
    await context.advance(minute);
    const note = confirmNote();
    assert.equal(await confirm(context, before, note), true);
    const counted = state === "dead" ? { sends: 0, returns: 0 } : {};
    const after = await effectNow(context, before);
    const { fence, lastErrorCode } = after;
    const changed = { ...counted, state: "pending", result: after.result, finishedAt: null } as const;
    sameEffect(after, { ...before, ...changed, fence, lastErrorCode }, "pending");
    assert.equal(resultText(after), confirmedText);
    const audit = await context.store.settlement.audit(keyOf(before));
    const { at: _, ...entry } = audit.find(({ id }) => id === note.id) ?? {};
    const about = { key: keyOf(before), recordId: before.recordId, effectId: before.id };
    assert.deepEqual(entry, { ...note, ...about, event: "confirm", from: state, to: "pending" });
    if (state === "claimed") {
      const { id, fence: held } = before;
      const mayStart = await outboxOf(context.store).start([{ id, fence: held }], minute);
      assert.deepEqual(mayStart, [], "the claim is over: nothing may be sent");
    }
    const again = () => confirm(context, before, note);
    assert.equal(await leavesEffect(context, before, "the repetition", again), true);
    assert.equal(resultText(await claimOnly(context, before)), confirmedText);
  },
}));

export const outboxConfirmCases: readonly StoreCase[] = [
  ...waiting,
  {
    name: "outbox confirm: an effect that is being sent keeps its claim; the result stays if the send ends in a retry",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      assert.equal(await confirm(context, started), true);
      const during = await effectNow(context, started);
      const changed = { result: during.result, returns: started.returns + 1 };
      sameEffect(during, { ...started, ...changed }, "still started");
      await endOnly(context, deliveryEnds.retry(started));
      const after = await effectNow(context, started);
      assert.deepEqual(
        [after.state, after.returns, resultText(after)],
        ["pending", started.returns + 1, confirmedText],
      );
    },
  },
  {
    name: "outbox confirm: an effect that is being sent and returns ends with its own result",
    needs: withTransactions,
    async run(context) {
      const started = await startNew(context);
      assert.equal(await confirm(context, started), true);
      const { id, fence } = started;
      await endOnly(context, { id, fence, event: "deliver", result: bytes("own"), keepMs });
      const after = await effectNow(context, started);
      const own = Buffer.from(bytes("own")).toString();
      assert.deepEqual(
        [after.state, after.returns, resultText(after)],
        ["delivered", started.returns + 1, own],
      );
    },
  },
  {
    name: "outbox confirm: refused for an effect that is delivered, has a result, is of another generation or does not exist",
    needs: withTransactions,
    async run(context) {
      const delivered = await putEffectIn(context, "delivered");
      const withResult = await startNew(context);
      await endOnly(context, deliveryEnds.keep_result(withResult));
      const pending = await putEffectIn(context, "pending");
      const wrong: readonly (readonly [string, OutboxEffect, OutboxEffect])[] = [
        ["delivered", delivered, delivered],
        ["with a result", withResult, withResult],
        ["another generation", pending, { ...pending, generation: pending.generation + 1 }],
        ["that does not exist", pending, { ...pending, id: newId() }],
      ];
      for (const [what, effect, named] of wrong) {
        const confirmed = await leavesEffect(context, effect, what, () => confirm(context, named));
        assert.equal(confirmed, false, what);
      }
      await claim(context);
    },
  },
  {
    name: "outbox confirm: of many confirmations at once exactly one is written",
    needs: withTransactions,
    async run(context) {
      const dead = await putEffectIn(context, "dead");
      const { id, generation } = dead;
      const answers = await race(context, 4, (store) =>
        outboxOf(store).confirm({ id, generation, result: bytes("confirmed") }, confirmNote()),
      );
      assert.equal(answers.filter(Boolean).length, 1);
      assert.equal((await effectNow(context, dead)).state, "pending");
    },
  },
];
