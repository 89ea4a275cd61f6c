/** Ordered aggregates: effects are delivered one after the other, in the order in which they were written. */
import assert from "node:assert/strict";
import type { NewEffect, OutboxEffect } from "latchkey/internal";
import { hour, leaseMs, minute, newId, newKey, newToken, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { race } from "./check.ts";
import {
  claim,
  claimOnly,
  deadNote,
  deliveryEnds,
  effectName,
  endOnly,
  enqueue,
  enqueueAll,
  idsOf,
  keepMs,
  newEffect,
  outboxOf,
  rescueAll,
  retryAt,
  startOnly,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

const ordered = { aggregate: "order-1", ordered: true } as const;

/** Enqueues three effects in three transactions, in this order. */
async function enqueueThree(
  context: CaseContext,
  overrides: Partial<NewEffect> = {},
): Promise<readonly [OutboxEffect, OutboxEffect, OutboxEffect]> {
  const one = async () => enqueue(context, { ...ordered, ...overrides });
  return [await one(), await one(), await one()];
}

async function deliver(context: CaseContext, claimed: OutboxEffect): Promise<void> {
  await endOnly(context, deliveryEnds.deliver(claimed));
}

/** Ways in which the first effect of an aggregate becomes due again without being delivered. */
const comebacks: readonly (readonly [
  what: string,
  lead: (context: CaseContext, claimed: OutboxEffect) => Promise<unknown>,
])[] = [
  ["is retryable", (context, claimed) => endOnly(context, retryAt(claimed, 0))],
  ["was given back", (context, claimed) => endOnly(context, deliveryEnds.give_back(claimed))],
  ["was reopened", (context, claimed) => endOnly(context, deliveryEnds.reopen(claimed))],
  ["was rescued", (context) => rescueAll(context)],
  [
    "was rescued after its send was begun",
    async (context, claimed) => {
      await startOnly(context, claimed);
      await rescueAll(context);
    },
  ],
];

const comingBack: readonly StoreCase[] = comebacks.map(([what, lead]) => ({
  name: `outbox order: an effect that ${what} stays ahead of those behind it`,
  needs: withTransactions,
  async run(context) {
    const [first, second_] = await enqueueThree(context);
    await lead(context, await claimOnly(context, first));
    await deliver(context, await claimOnly(context, first));
    await claimOnly(context, second_);
  },
}));

/** Pairs that do not block each other. */
const apart: readonly (readonly [what: string, left: Apart, right: Apart])[] = [
  ["aggregates", {}, { aggregate: "order-2" }],
  ["aggregates that differ in case", {}, { aggregate: "Order-1" }],
  ["aggregates that differ in a space", {}, { aggregate: "order-1 " }],
  ["definitions", {}, { effect: "invoices.send" }],
  ["tenants", { tenant: "tenant-a" }, { tenant: "tenant-b" }],
  [
    "tenants and aggregates with separators",
    { tenant: "a:b", aggregate: "c" },
    { tenant: "a", aggregate: "b:c" },
  ],
];
type Apart = Partial<Pick<NewEffect, "aggregate" | "effect">> & { readonly tenant?: string };

const separate: readonly StoreCase[] = apart.map(([what, left, right]) => ({
  name: `outbox order: different ${what} do not block each other`,
  needs: withTransactions,
  async run(context) {
    const ids = [];
    for (const { tenant = "tenant-1", ...overrides } of [left, right]) {
      ids.push((await enqueue(context, { ...ordered, ...overrides }, newKey({ tenant }))).id);
    }
    const wants = [effectName, "invoices.send"].map((effect) => ({ effect, limit: 9 }));
    assert.deepEqual(idsOf(await claim(context, wants)).sort(), ids.sort());
  },
}));

export const outboxOrderCases: readonly StoreCase[] = [
  {
    name: "outbox order: only the first effect of an aggregate is claimed, until it is delivered",
    needs: withTransactions,
    async run(context) {
      const effects = await enqueueThree(context);
      for (const effect of effects) {
        const claimed = await claimOnly(context, effect);
        assert.deepEqual(await claim(context), [], "those behind it must wait");
        await startOnly(context, claimed);
        assert.deepEqual(await claim(context), [], "those behind it must wait for the send");
        await deliver(context, claimed);
      }
      assert.deepEqual(await claim(context), []);
    },
  },
  {
    name: "outbox order: by the order of writing within one transaction, whatever their ids",
    needs: withTransactions,
    async run(context) {
      const ids = [newId(), newId(), newId()].sort().reverse();
      await enqueueAll(
        context,
        ids.map((id, index) => newEffect({ ...ordered, id, index })),
      );
      for (const id of ids) await deliver(context, await claimOnly(context, { id }));
    },
  },
  {
    name: "outbox order: an effect that is not due yet blocks those behind it",
    needs: withTransactions,
    async run(context) {
      const late = await enqueue(context, { ...ordered, delayMs: hour });
      const next = await enqueue(context, ordered);
      assert.deepEqual(await claim(context), []);
      await context.advance(hour + second);
      await deliver(context, await claimOnly(context, late));
      await claimOnly(context, next);
    },
  },
  {
    name: "outbox order: an effect that waits to be retried blocks those behind it",
    needs: withTransactions,
    async run(context) {
      const [first] = await enqueueThree(context);
      await endOnly(context, retryAt(await claimOnly(context, first), 10 * minute));
      assert.deepEqual(await claim(context), []);
      await context.advance(10 * minute + second);
      await claimOnly(context, first);
    },
  },
  ...comingBack,
  {
    name: "outbox order: a dead effect blocks those behind it, and is first again when it is redriven",
    needs: withTransactions,
    async run(context) {
      const [first, next] = await enqueueThree(context);
      await endOnly(context, deliveryEnds.die(await claimOnly(context, first)));
      await context.advance(hour);
      assert.deepEqual(await claim(context), []);
      const redrive = { event: "redrive", attempt: null, doubt: "kept" } as const;
      assert.equal(await outboxOf(context.store).decide(first.id, redrive, deadNote()), true);
      await deliver(context, await claimOnly(context, first));
      await claimOnly(context, next);
    },
  },
  {
    name: "outbox order: a dead effect blocks nothing after it is discarded",
    needs: withTransactions,
    async run(context) {
      const [first, next] = await enqueueThree(context);
      await endOnly(context, deliveryEnds.die(await claimOnly(context, first)));
      const discard = { event: "discard", attempt: null, keepMs } as const;
      assert.equal(await outboxOf(context.store).decide(first.id, discard, deadNote()), true);
      await claimOnly(context, next);
    },
  },
  ...separate,
  {
    name: "outbox order: effects that are not ordered share an aggregate without waiting for each other",
    needs: withTransactions,
    async run(context) {
      const effects = await enqueueThree(context, { ordered: false });
      assert.deepEqual(idsOf(await claim(context)).sort(), idsOf(effects).sort());
    },
  },
  {
    name: "outbox order: many claims at once never claim two effects of one aggregate",
    needs: withTransactions,
    async run(context) {
      const [first] = await enqueueThree(context);
      const claims = await race(context, 4, (store) =>
        outboxOf(store).claim([{ effect: effectName, limit: 9 }], newToken(), leaseMs),
      );
      const claimed = idsOf(claims.flat());
      assert.ok(claimed.length <= 1, "one at a time");
      assert.deepEqual([...claimed, ...idsOf(await claim(context))], [first.id]);
    },
  },
  {
    name: "outbox order: many claims while the first effect is being delivered never claim one behind the next",
    needs: withTransactions,
    async run(context) {
      const [first, next] = await enqueueThree(context);
      const claimed = await claimOnly(context, first);
      const wants = [{ effect: effectName, limit: 9 }];
      const results = await race(context, 5, async (store, index) => {
        if (index !== 0) return outboxOf(store).claim(wants, newToken(), leaseMs);
        await outboxOf(store).end([deliveryEnds.deliver(claimed)]);
        return [];
      });
      const ids = idsOf(results.flat());
      assert.deepEqual([...ids, ...idsOf(await claim(context))], [next.id]);
    },
  },
];
