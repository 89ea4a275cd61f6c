/** `outbox.list` and `outbox.ofRecord`: what an operator sees. */
import assert from "node:assert/strict";
import type { EffectFilter, OutboxEffect } from "latchkey/internal";
import { day, hour, newId, newKey, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { cleanAll } from "./check.ts";
import { beginWork, bytes, runPhase } from "./journal-arrange.ts";
import {
  claimOf,
  claimOnly,
  deliveryEnds,
  effectStates,
  effectsOf,
  endOnly,
  enqueue,
  enqueueAll,
  idsOf,
  newEffect,
  outboxOf,
  putEffectIn,
  sameEffect,
} from "./outbox-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

function list(context: CaseContext, overrides: Partial<EffectFilter> = {}): Promise<readonly OutboxEffect[]> {
  const filter = { state: "pending", effect: null, tenant: null, limit: 100, after: null } as const;
  return outboxOf(context.other).list({ ...filter, ...overrides });
}

/** Reads all pages of two. */
async function pages(context: CaseContext): Promise<readonly string[]> {
  const ids: string[] = [];
  let after: EffectFilter["after"] = null;
  for (let count = 0; count < 20; count += 1) {
    const page = await list(context, { limit: 2, after });
    assert.ok(page.length <= 2, "no more than the limit");
    ids.push(...idsOf(page));
    const last = page.at(-1);
    if (last === undefined) return ids;
    after = { createdAt: last.createdAt, id: last.id };
  }
  assert.fail("paging must come to an end");
}

export const outboxListCases: readonly StoreCase[] = [
  {
    name: "outbox list: the effects in one state, as they are stored",
    needs: withTransactions,
    async run(context) {
      const effects = new Map<string, OutboxEffect>();
      for (const state of effectStates.toReversed()) effects.set(state, await putEffectIn(context, state));
      for (const state of effectStates) {
        const [found, ...more] = await list(context, { state });
        assert.ok(found && more.length === 0, `exactly one must be ${state}`);
        sameEffect(found, effects.get(state) ?? null, "as it is stored");
      }
    },
  },
  {
    name: "outbox list: of one tenant, of one definition, or of both",
    needs: withTransactions,
    async run(context) {
      const ids: string[] = [];
      for (const tenant of ["a", "b"]) {
        for (const effect of ["one", "two"])
          ids.push((await enqueue(context, { effect }, newKey({ tenant }))).id);
      }
      const found = async (filter: Partial<EffectFilter>) => idsOf(await list(context, filter)).sort();
      assert.deepEqual(await found({}), [...ids].sort());
      assert.deepEqual(await found({ tenant: "a" }), ids.slice(0, 2).sort());
      assert.deepEqual(await found({ effect: "two" }), [ids[1], ids[3]].sort());
      assert.deepEqual(await found({ tenant: "b", effect: "one" }), [ids[2]]);
      assert.deepEqual(await found({ tenant: "A", effect: "one" }), []);
    },
  },
  {
    name: "outbox list: oldest first, page by page, none twice and none missing",
    needs: withTransactions,
    async run(context) {
      const ids: string[] = [];
      for (let count = 0; count < 5; count += 1) {
        ids.push((await enqueue(context, { delayMs: (9 - count) * hour })).id);
        await context.advance(second);
      }
      assert.deepEqual(await pages(context), ids);
    },
  },
  {
    name: "outbox list: effects of the same time are ordered by their ids",
    needs: withTransactions,
    frozenClock: true,
    async run(context) {
      const ids = [newId(), newId(), newId(), newId(), newId()].sort();
      const [a, b, c, d, e] = ids;
      const mixed = [d, a, e, c, b].flatMap((id) => (id === undefined ? [] : [newEffect({ id })]));
      await enqueueAll(context, mixed);
      assert.deepEqual(await pages(context), ids);
    },
  },
  {
    name: "outbox list: the effects of one life only, and none for a life that does not exist",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await enqueue(context);
      await runPhase(context, record, "one", {
        effects: [newEffect({ step: "one" }), newEffect({ step: "one" })],
      });
      assert.equal((await effectsOf(context, record.id)).length, 2);
      assert.deepEqual(await effectsOf(context, newId()), []);
    },
  },
  {
    name: "outbox list: the effects of one life in the order of writing, in every state",
    needs: withTransactions,
    async run(context) {
      const effects = await enqueueAll(context, [
        newEffect({ effect: "one", index: 0 }),
        newEffect({ index: 1 }),
        newEffect({ effect: "two", index: 2 }),
      ]);
      const [first, middle] = effects;
      assert.ok(first && middle);
      await endOnly(context, deliveryEnds.deliver(await claimOnly(context, middle)));
      assert.deepEqual(idsOf(await effectsOf(context, first.recordId)), idsOf(effects));
    },
  },
  {
    name: "outbox list: changing a value that was passed in or returned does not change the effect",
    needs: withTransactions,
    async run(context) {
      const input = bytes("input");
      const { id, recordId } = await enqueue(context, { input });
      input.fill(99);
      for (let round = 0; round < 2; round += 1) {
        const [effect] = await effectsOf(context, recordId);
        assert.ok(effect);
        assert.deepEqual([...effect.input], [...bytes("input")]);
        effect.input.fill(98);
        effect.fingerprint.fill(98);
      }
      const claimed = await claimOnly(context, { id });
      assert.deepEqual([claimed.fingerprint[0], claimed.input[0]], [7, bytes("i")[0]]);
    },
  },
  {
    name: "outbox list: a delivered effect outlives its record for its retention",
    needs: withTransactions,
    async run(context) {
      const { id, recordId } = await enqueue(context);
      const claimed = await claimOnly(context, { id });
      const delivered = await endOnly(context, {
        ...claimOf(claimed),
        event: "deliver",
        result: null,
        keepMs: 10 * day,
      });
      await context.advance(day);
      assert.equal((await cleanAll(context)).forgotten, 1);
      const [kept] = await effectsOf(context, recordId);
      sameEffect(kept, delivered, "it must be unchanged");
    },
  },
];
