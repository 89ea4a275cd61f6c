/** `overview`: what waits, and since when. A store that does not count is counted by listing. */
import assert from "node:assert/strict";
import type { Overview, Store } from "latchkey";
import { overviewOf } from "latchkey/internal";
import {
  createRunning,
  defaultTerms,
  endRunning,
  ends,
  hour,
  minute,
  newId,
  newKey,
  newToken,
  putInState,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { effectStates, putEffectIn } from "./outbox-arrange.ts";

/** The same, counted from the lists. */
function listed(store: Store<unknown>, countMax: number): Promise<Overview> {
  return overviewOf({ ...store, overview: undefined } as unknown as Store<unknown>, countMax);
}

async function sameAsListed(context: CaseContext, countMax: number): Promise<Overview> {
  const { now, ...counted } = await overviewOf(context.other, countMax);
  const { now: later, ...expected } = await listed(context.store, countMax);
  assert.deepEqual(counted, expected);
  assert.ok(now <= later, "the store's own time");
  return { now, ...counted };
}

async function bury(context: CaseContext): Promise<void> {
  const { messages } = context.store;
  const digest = `${newToken()}${newToken()}`;
  const facts = { digest, source: "orders", operation: "shipments.create", tenant: "t", key: "k" };
  const letter = {
    id: newId(),
    reason: "undecodable",
    contentType: null,
    payload: Uint8Array.of(1),
  } as const;
  await messages?.bury(facts, letter, null);
}

export const overviewCases: readonly StoreCase[] = [
  {
    name: "overview: an empty store has nothing waiting",
    async run(context) {
      const { records, overdueLeases, effects, messages } = await sameAsListed(context, 10);
      const nothing = { count: 0, more: false, oldestAt: null };
      for (const depth of [...Object.values(records), overdueLeases]) assert.deepEqual(depth, nothing);
      for (const depth of [...Object.values(effects ?? {}), ...Object.values(messages ?? {})])
        assert.deepEqual(depth, nothing);
    },
  },
  {
    name: "overview: each kind separately, with the time since which the oldest waits",
    async run(context) {
      if (context.capabilities.transactions) {
        for (const state of effectStates.toReversed()) await putEffectIn(context, state);
      }
      for (const state of states) await putInState(context, state);
      await bury(context);
      await context.advance(minute);
      for (const state of states) await putInState(context, state);
      const { records, effects, now } = await sameAsListed(context, 100);
      for (const [state, { count, oldestAt }] of Object.entries(records)) {
        assert.ok(count >= 2, `two must be ${state}`);
        assert.ok(oldestAt !== null && now - oldestAt >= minute, `${state} for a minute or more`);
      }
      if (effects !== null) assert.deepEqual([effects.claimed.count, effects.dead.count], [2, 1]);
    },
  },
  {
    name: "overview: counts up to the limit, and reports that there are more",
    async run(context) {
      for (let at = 0; at < 3; at += 1) await endRunning(context, newKey(), ends.unknown);
      const { unknown: short } = (await sameAsListed(context, 2)).records;
      assert.deepEqual([short.count, short.more], [2, true]);
      const { unknown: exact } = (await sameAsListed(context, 3)).records;
      assert.deepEqual([exact.count, exact.more], [3, false]);
    },
  },
  {
    name: "overview: a lease that only the rescuer ends is overdue once it has ended",
    async run(context) {
      const key = newKey();
      const { leaseEndsAt } = await createRunning(context, key, { ...defaultTerms, leaseEnd: "reconcile" });
      assert.equal((await sameAsListed(context, 10)).overdueLeases.count, 0);
      await context.advance(hour);
      const { overdueLeases } = await sameAsListed(context, 10);
      assert.deepEqual(overdueLeases, { count: 1, more: false, oldestAt: leaseEndsAt });
    },
  },
];
