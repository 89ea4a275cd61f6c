/** `early`: settlements that arrive before their record is `unknown`. */
import assert from "node:assert/strict";
import { type EarlySettlement, guardOf } from "latchkey/internal";
import { defaultTerms, ends, hour, newId, newKey, newLife, readRecord } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { cleanAll } from "./check.ts";
import { keyOf } from "./journal-arrange.ts";

function earlySettlement(reason: string | null = null): EarlySettlement {
  const result = new Uint8Array([0, 255, 7]);
  return {
    settlement: { event: "settle_call", call: "charged", generation: 0, result, resumeAfterMs: null },
    note: { id: newId(), actor: "webhook", proof: "webhook", reason },
    attempt: 1,
    call: { name: "charged", generation: 0 },
  };
}

async function running(context: CaseContext) {
  const record = await context.store.create(newLife(newKey()), null, defaultTerms);
  assert.ok(record);
  return record;
}

function earlyOf({ store, other }: CaseContext) {
  return store.early === undefined || other.early === undefined
    ? null
    : { early: store.early, elsewhere: other.early };
}

export const earlyCases: readonly StoreCase[] = [
  {
    name: "early: a settlement for a running life is stored as given, once, in order, and changes nothing",
    async run(context) {
      const ports = earlyOf(context);
      if (ports === null) return;
      const record = await running(context);
      const [first, second] = [earlySettlement("ü"), earlySettlement()];
      for (const given of [first, first])
        assert.equal(await ports.early.keep(keyOf(record), guardOf(record), given), true);
      await context.advance(hour);
      assert.equal(await ports.early.keep(keyOf(record), guardOf(record), second), true);
      assert.deepEqual(await ports.elsewhere.of(keyOf(record), record.id), [first, second]);
      assert.deepEqual(
        await ports.early.of(keyOf(record), newId()),
        [],
        "there must be none for another life",
      );
      assert.equal((await readRecord(context, keyOf(record))).state, "in_progress");
      assert.deepEqual(await context.store.settlement.audit(keyOf(record)), []);
      assert.ok(
        await context.store.end(keyOf(record), record.id, record.fence, ends.unknown),
        "its owner ends it",
      );
      assert.deepEqual(
        await ports.early.of(keyOf(record), record.id),
        [first, second],
        "kept until it is used",
      );
    },
  },
  {
    name: "early: stored only for a record that runs or may be resumed, and only in the version that was read",
    async run(context) {
      const ports = earlyOf(context);
      if (ports === null) return;
      for (const [end, kept] of [
        [ends.retryable, true],
        [ends.unknown, false],
        [ends.failed, false],
      ] as const) {
        const record = await running(context);
        const other = { ...guardOf(record), fence: { attempt: 2, token: record.fence.token } };
        assert.equal(
          await ports.early.keep(keyOf(record), other, earlySettlement()),
          false,
          "another attempt",
        );
        assert.equal(
          await ports.early.keep(keyOf(record), { ...guardOf(record), id: newId() }, earlySettlement()),
          false,
        );
        assert.ok(await context.store.end(keyOf(record), record.id, record.fence, end));
        assert.equal(
          await ports.early.keep(keyOf(record), guardOf(record), earlySettlement()),
          false,
          "ended since",
        );
        const guard = guardOf(await readRecord(context, keyOf(record)));
        assert.equal(await ports.early.keep(keyOf(record), guard, earlySettlement()), kept, end.event);
      }
    },
  },
  {
    name: "early: unknown records with a stored settlement are due, and no settlement outlives its life",
    async run(context) {
      const ports = earlyOf(context);
      if (ports === null) return;
      const [left, silent, done] = [await running(context), await running(context), await running(context)];
      for (const record of [left, done]) {
        assert.equal(await ports.early.keep(keyOf(record), guardOf(record), earlySettlement()), true);
      }
      const isDue = async (id: string) =>
        (await ports.elsewhere.due(1_000)).some((record) => record.id === id);
      assert.equal(await isDue(left.id), false, "while it runs");
      for (const record of [left, silent]) {
        assert.ok(await context.store.end(keyOf(record), record.id, record.fence, ends.unknown));
      }
      assert.ok(await context.store.end(keyOf(done), done.id, done.fence, { event: "release" }));
      assert.equal(await isDue(left.id), true, "once it is unknown");
      assert.equal(await isDue(silent.id), false, "it has no settlement");
      assert.equal((await ports.early.due(0)).length, 0);
      const again = await context.store.create(newLife(keyOf(done)), null, defaultTerms);
      assert.ok(again);
      assert.deepEqual(await ports.early.of(keyOf(again), again.id), [], "a new life must begin without any");
      await context.advance(hour);
      await cleanAll(context);
      assert.equal(
        (await ports.early.of(keyOf(left), left.id)).length,
        1,
        "cleaning must leave those that may still be used",
      );
    },
  },
];
