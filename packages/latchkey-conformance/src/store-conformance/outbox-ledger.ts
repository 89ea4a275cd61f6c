/** `outbox.byDownstreamKey` and `outbox.finished`: the data to which a ledger is compared, for stores that provide it. */
import assert from "node:assert/strict";
import { hour, newId, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { newDownstreamKey } from "./journal-arrange.ts";
import {
  claimNew,
  deadNote,
  deliveryEnds,
  effectNow,
  endOnly,
  enqueue,
  idsOf,
  outboxOf,
  putEffectIn,
  sameEffect,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

let effectsMade = 0;

/** The name of an effect that no other case uses. */
function newName(): string {
  effectsMade += 1;
  return `receipts.ledger-${effectsMade}`;
}

async function deliverNew(context: CaseContext, effect: string) {
  const enqueued = await enqueue(context, { effect });
  const [claimed] = await outboxOf(context.store).claim([{ effect, limit: 1 }], newId(), hour);
  assert.equal(claimed?.id, enqueued.id);
  await outboxOf(context.store).start([claimed], hour);
  await endOnly(context, deliveryEnds.deliver(claimed));
  return effectNow(context, enqueued);
}

export const outboxLedgerCases: readonly StoreCase[] = [
  {
    name: "outbox ledger: by downstream key, only effects that have the key now, in any state",
    needs: withTransactions,
    async run(context) {
      const outbox = outboxOf(context.other);
      if (outbox.byDownstreamKey === undefined) return;
      const ended = [await putEffectIn(context, "dead"), await putEffectIn(context, "delivered")];
      const sentAgain = await claimNew(context);
      await endOnly(context, deliveryEnds.reopen(sentAgain));
      const effects = [...ended, await putEffectIn(context, "pending")];
      const [one] = effects;
      assert.ok(one);
      const unasked = await putEffectIn(context, "pending");
      const keys = [
        ...effects,
        { recordId: one.recordId, downstreamKey: unasked.downstreamKey },
        { recordId: unasked.recordId, downstreamKey: one.downstreamKey },
        { recordId: newId(), downstreamKey: newDownstreamKey() },
        sentAgain,
      ].map(({ recordId, downstreamKey }) => ({ recordId, downstreamKey }));
      const found = await outbox.byDownstreamKey(keys);
      assert.deepEqual(idsOf(found).toSorted(), idsOf(effects).toSorted());
      for (const effect of found) sameEffect(effect, await effectNow(context, effect), "as it is stored");
      assert.deepEqual(await outbox.byDownstreamKey([]), []);
    },
  },
  {
    name: "outbox ledger: the delivered effects of one definition, from the first time, inclusive, to the second, exclusive, page by page",
    needs: withTransactions,
    async run(context) {
      const outbox = outboxOf(context.other);
      if (outbox.finished === undefined) return;
      const [effect, other] = [newName(), newName()];
      const delivered = [];
      for (let count = 0; count < 3; count++) {
        delivered.push(await deliverNew(context, effect));
        await context.advance(second);
      }
      await deliverNew(context, other);
      await enqueue(context, { effect });
      const all = { effect, from: 0, to: 1e15, limit: 2, after: null };
      const first = await outbox.finished(all);
      assert.deepEqual(idsOf(first), idsOf(delivered.slice(0, 2)));
      const last = first[1];
      assert.ok(last?.finishedAt);
      const after = { finishedAt: last.finishedAt, downstreamKey: last.downstreamKey };
      assert.deepEqual(idsOf(await outbox.finished({ ...all, after })), idsOf(delivered.slice(2)));
      const [from = 0, to = 0] = delivered.slice(1).map(({ finishedAt }) => finishedAt ?? 0);
      assert.deepEqual(idsOf(await outbox.finished({ ...all, from, to })), idsOf(delivered.slice(1, 2)));
    },
  },
  {
    name: "outbox ledger: an effect that a person has discarded has no result",
    needs: withTransactions,
    async run(context) {
      const outbox = outboxOf(context.other);
      if (outbox.finished === undefined) return;
      const dead = await putEffectIn(context, "dead");
      const decision = { event: "discard", attempt: dead.fence.attempt, keepMs: hour } as const;
      assert.equal(await outbox.decide(dead.id, decision, deadNote()), true);
      const found = await outbox.finished({
        effect: dead.effect,
        from: 0,
        to: 1e15,
        limit: 10_000,
        after: null,
      });
      const discarded = found.find(({ id }) => id === dead.id);
      assert.equal(discarded?.state, "delivered");
      assert.equal(discarded.result, null);
    },
  },
];
