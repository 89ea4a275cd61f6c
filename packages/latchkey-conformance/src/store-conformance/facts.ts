/** `facts`: what happened around a record, the first ten and the last twenty of each kind. Stores that keep none pass. */
import assert from "node:assert/strict";
import type { RecordKey } from "latchkey";
import { type FactGroup, type FactKind, type FactSupport, guardOf } from "latchkey/internal";
import {
  completion,
  day,
  defaultTerms,
  endRunning,
  hour,
  minute,
  newId,
  newKey,
  newLife,
  readRecord,
  second,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { keyOf } from "./journal-arrange.ts";

function factCase(
  name: string,
  run: (context: CaseContext, facts: FactSupport, other: FactSupport) => Promise<void>,
): StoreCase {
  return {
    name: `facts: ${name}`,
    async run(context) {
      const [facts, other] = [context.store.facts, context.other.facts];
      if (facts !== undefined && other !== undefined) await run(context, facts, other);
    },
  };
}

const traceId = "0af7651916cd43dd8448eb211c80319c";

function groupOf(key: RecordKey, whats: readonly string[], more: Partial<FactGroup> = {}): FactGroup {
  const facts = whats.map((what) => ({ what, because: null, traceId: null, agoMs: 0 }));
  return { key, recordId: null, kind: "repeat", count: whats.length, facts, ...more };
}

const numbered = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, at) => String(from + at));

async function whatsOf(facts: FactSupport, key: RecordKey, id: string, kind: FactKind = "repeat") {
  const kept = (await facts.of(key, id)).find((one) => one.kind === kind);
  return kept === undefined ? null : { count: kept.count, whats: kept.facts.map(({ what }) => what) };
}

async function begin(context: CaseContext, key = newKey()) {
  const record = await context.store.create(newLife(key), null, defaultTerms);
  assert.ok(record);
  return { key: keyOf(record), record };
}

export const factCases: readonly StoreCase[] = [
  factCase(
    "they come back as given, with the store's time, separately for each kind",
    async (context, facts, other) => {
      const { key, record } = await begin(context);
      assert.deepEqual(await other.of(key, record.id), [], "none before");
      const first = { what: "in_progress", because: null, traceId, agoMs: 3 * second };
      const later = { what: "key_misuse", because: "fingerprint", traceId: null, agoMs: second };
      const { now } = await context.store.read(key);
      await facts.keep([
        { key, recordId: record.id, kind: "repeat", count: 2, facts: [first, later] },
        groupOf(key, ["ask_later"], { kind: "look_up", recordId: record.id }),
      ]);
      const after = (await context.store.read(key)).now;
      const kept = await other.of(key, record.id);
      assert.deepEqual(kept.map(({ kind, count }) => [kind, count]).toSorted(), [
        ["look_up", 1],
        ["repeat", 2],
      ]);
      const repeats = kept.find(({ kind }) => kind === "repeat")?.facts ?? [];
      assert.deepEqual(
        repeats.map(({ at: _, ...kept }) => kept),
        [first, later].map(({ agoMs: _, ...kept }) => kept),
      );
      for (const [place, { agoMs }] of [first, later].entries()) {
        const at = repeats[place]?.at ?? 0;
        assert.ok(
          Math.floor(now) - agoMs - 1 <= at && at <= after - agoMs,
          `${at} must be ${agoMs} ms before it was stored`,
        );
      }
    },
  ),
  factCase("the first ten and the last twenty stay, with a count of all", async (context, facts, other) => {
    const { key, record } = await begin(context);
    await facts.keep([groupOf(key, numbered(1, 7))]);
    await facts.keep([groupOf(key, numbered(8, 12))]);
    assert.deepEqual(await whatsOf(other, key, record.id), { count: 12, whats: numbered(1, 12) });
    await facts.keep([groupOf(key, numbered(13, 30))]);
    assert.deepEqual(await whatsOf(other, key, record.id), { count: 30, whats: numbered(1, 30) });
    await facts.keep([groupOf(key, ["31"])]);
    const around = { count: 31, whats: [...numbered(1, 10), ...numbered(12, 31)] };
    assert.deepEqual(await whatsOf(other, key, record.id), around);
    const many = [...numbered(32, 41), ...numbered(1_012, 1_031)];
    await facts.keep([groupOf(key, many, { count: 1_000 })]);
    assert.deepEqual(await whatsOf(other, key, record.id), {
      count: 1_031,
      whats: [...numbered(1, 10), ...numbered(1_012, 1_031)],
    });
  }),
  factCase(
    "many keys at once keep their own, even if their names could be confused",
    async (context, facts, other) => {
      const end = newId();
      const keys = [
        { tenant: "a", scope: "bc", key: `d${end}` },
        { tenant: "ab", scope: "c", key: `d${end}` },
        { tenant: "a", scope: "b", key: `cd${end}` },
        newKey(),
      ];
      const begun = await Promise.all(keys.map((key) => begin(context, key)));
      await facts.keep(begun.map(({ key, record }) => groupOf(key, [record.id], { recordId: record.id })));
      for (const { key, record } of begun) {
        assert.deepEqual(await whatsOf(other, key, record.id), { count: 1, whats: [record.id] });
      }
    },
  ),
  factCase("two that are stored at once are both kept", async (context, facts, other) => {
    const begun = await Promise.all([1, 2, 3].map(() => begin(context)));
    const groups = begun.map(({ key }) => groupOf(key, ["kept"]));
    const rounds = Array.from({ length: 8 }, (_, round) => (round % 2 === 0 ? facts : other));
    await Promise.all(
      rounds.map((support, round) => support.keep(round % 3 === 0 ? groups : groups.toReversed())),
    );
    for (const { key, record } of begun) {
      assert.equal((await whatsOf(other, key, record.id))?.count, 8);
    }
  }),
  factCase("none is kept for a key without a record, or for another life", async (context, facts, other) => {
    const gone = newKey();
    const { key, record } = await begin(context);
    await facts.keep([groupOf(gone, ["lost"]), groupOf(key, ["lost"], { recordId: newId() })]);
    assert.equal(await whatsOf(other, key, record.id), null);
    const { record: later } = await begin(context, gone);
    assert.equal(await whatsOf(other, gone, later.id), null);
  }),
  factCase("a new life has only its own", async (context, facts, other) => {
    const key = newKey();
    const { record } = await begin(context, key);
    await facts.keep([groupOf(key, numbered(1, 3))]);
    const retention = { retentionMs: minute, forgetAfterMs: minute };
    assert.ok(await context.store.end(key, record.id, record.fence, completion("done", retention)));
    assert.deepEqual(
      await whatsOf(other, key, record.id),
      { count: 3, whats: numbered(1, 3) },
      "after its end",
    );
    await context.advance(hour);
    const next = newLife(key);
    assert.ok(await context.store.create(next, guardOf(await readRecord(context, key)), defaultTerms));
    assert.equal(await whatsOf(other, key, next.id), null, "none of the previous life");
    await facts.keep([groupOf(key, ["4"])]);
    assert.deepEqual(await whatsOf(other, key, next.id), { count: 1, whats: ["4"] });
    assert.equal(await whatsOf(other, key, record.id), null, "nothing under the previous id");
  }),
  factCase("they change nothing of the record, and go with it", async (context, facts, other) => {
    const [finished, released] = [newKey(), newKey()];
    await endRunning(context, finished, completion("done", { retentionMs: minute, forgetAfterMs: day }));
    const before = await readRecord(context, finished);
    const running = await begin(context, released);
    await facts.keep([groupOf(finished, ["1"]), groupOf(released, ["1"])]);
    assert.deepEqual(await readRecord(context, finished), before);
    assert.ok(
      await context.store.end(released, running.record.id, running.record.fence, { event: "release" }),
    );
    await context.advance(hour);
    await context.store.clean(100);
    assert.equal((await whatsOf(other, finished, before.id))?.count, 1, "they must outlive the answer");
    await context.advance(2 * day);
    await context.store.clean(100);
    for (const [key, id] of [
      [finished, before.id],
      [released, running.record.id],
    ] as const) {
      assert.equal((await context.store.read(key)).record, null);
      // A life with the same id would find leftovers.
      assert.ok(await context.store.create(newLife(key, { id }), null, defaultTerms));
      assert.equal(await whatsOf(other, key, id), null);
    }
  }),
];
