import { expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import type { FactGroup, FactSupport } from "../stores/facts.ts";
import { type Fact, FactBuffer } from "./fact-buffer.ts";

const second = 1_000;

function setUp() {
  const { clock } = manualPorts();
  const kept: (readonly FactGroup[])[] = [];
  const dropped: (readonly [count: number, error: unknown])[] = [];
  let keep: FactSupport["keep"] = async (groups) => void kept.push(groups);
  const support: FactSupport = { keep: (groups) => keep(groups), of: async () => [] };
  const buffer = new FactBuffer(support, clock, {
    onDropped: (count, error) => dropped.push([count, error]),
  });
  const note = (key: string, more: Partial<Fact> = {}) =>
    buffer.note({
      kind: "repeat",
      key: { tenant: "t", scope: "s", key },
      recordId: null,
      what: "replay",
      because: null,
      traceId: null,
      ...more,
    });
  const keeping = (next: FactSupport["keep"]) => {
    keep = next;
  };
  return { clock, kept, dropped, buffer, note, keeping };
}

test("facts are written after a second, in one call, with the age of each", async () => {
  const { clock, kept, note } = setUp();
  note("a");
  await clock.advance(400);
  note("a", { what: "in_progress", traceId: "0af7651916cd43dd8448eb211c80319c" });
  note("b", { kind: "look_up", recordId: "r" });
  await clock.advance(599);
  expect(kept).toEqual([]);
  await clock.advance(1);
  expect(kept).toEqual([
    [
      {
        key: { tenant: "t", scope: "s", key: "a" },
        recordId: null,
        kind: "repeat",
        count: 2,
        facts: [
          { what: "replay", because: null, traceId: null, agoMs: 1_000 },
          { what: "in_progress", because: null, traceId: "0af7651916cd43dd8448eb211c80319c", agoMs: 600 },
        ],
      },
      {
        key: { tenant: "t", scope: "s", key: "b" },
        recordId: "r",
        kind: "look_up",
        count: 1,
        facts: [{ what: "replay", because: null, traceId: null, agoMs: 600 }],
      },
    ],
  ]);
  await clock.advance(10 * second);
  expect(kept, "nothing runs while there is nothing").toHaveLength(1);
});

test.each([1, 10, 11, 29, 30, 31, 49, 50, 51, 5_000])(
  "%i requests with a key take no more room than thirty facts",
  async (count) => {
    const { clock, kept, note } = setUp();
    for (let number = 1; number <= count; number += 1) note("hot", { because: String(number) });
    await clock.advance(second);
    const [group] = kept[0] ?? [];
    expect(group?.count).toBe(count);
    const all = Array.from({ length: count }, (_, at) => at + 1);
    const numbers = group?.facts.map(({ because }) => Number(because));
    expect(numbers).toEqual([...all.slice(0, 10), ...all.slice(10).slice(-20)]);
  },
);

test("a key that is repeated all the time is written every five seconds", async () => {
  const { clock, kept, note } = setUp();
  const repeatFor = async (seconds: number) => {
    for (let number = 0; number < seconds * 10; number += 1) {
      note("hot");
      await clock.advance(second / 10);
    }
  };
  const written = () => kept.map((groups) => groups.map(({ key, count }) => [key.key, count]));
  await repeatFor(5);
  expect(written()).toEqual([[["hot", 10]]]);
  note("other");
  await repeatFor(1);
  expect(written().slice(1)).toEqual([
    [
      ["hot", 50],
      ["other", 1],
    ],
  ]);
  await repeatFor(4);
  expect(kept).toHaveLength(2);
  await clock.advance(second);
  expect(written().slice(2)).toEqual([[["hot", 40]]]);
  await clock.advance(10 * second);
  note("hot");
  await clock.advance(second);
  expect(written().slice(3), "after a pause, a second later again").toEqual([[["hot", 1]]]);
});

test("more keys than fit are dropped and counted; known ones still count, and a round writes 500 keys", async () => {
  const { clock, kept, dropped, note } = setUp();
  for (let number = 0; number < 2_503; number += 1) note(`key-${number}`);
  note("key-0");
  await clock.advance(5 * second);
  expect(kept.map((groups) => groups.length)).toEqual([500, 500, 500, 500, 500]);
  expect(kept[0]?.[0]?.count).toBe(2);
  expect(new Set(kept.flat().map(({ key }) => key.key)).size).toBe(2_500);
  expect(dropped).toEqual([[3, null]]);
});

test("facts that the store fails to write are dropped and counted, and the next round continues", async () => {
  const { clock, kept, dropped, note, keeping } = setUp();
  const error = new Error("gone");
  keeping(async () => {
    throw error;
  });
  note("a");
  note("a");
  note("b");
  await clock.advance(second);
  expect(dropped).toEqual([[3, error]]);
  keeping(async (groups) => void kept.push(groups));
  note("c");
  await clock.advance(second);
  expect(kept.flat().map(({ key }) => key.key)).toEqual(["c"]);
});

test("facts noted during a round wait for the next; one round runs at a time", async () => {
  const { clock, kept, note, keeping } = setUp();
  const slow = Promise.withResolvers<void>();
  keeping(async (groups) => {
    kept.push(groups);
    await slow.promise;
  });
  note("a");
  await clock.advance(second);
  note("b");
  await clock.advance(5 * second);
  expect(kept).toHaveLength(1);
  slow.resolve();
  await clock.advance(second);
  expect(kept.flat().map(({ key }) => key.key)).toEqual(["a", "b"]);
});

test("of two lives of a key, the facts of the later one are written", async () => {
  const { clock, kept, note } = setUp();
  note("a", { recordId: "one" });
  note("a");
  note("a", { recordId: "two" });
  await clock.advance(second);
  expect(kept.flat()).toMatchObject([{ recordId: "two", count: 1 }]);
});

test("facts about one record are counted by kind, and after a round in the next one", async () => {
  const { clock, kept, note } = setUp();
  const noteBoth = (times: number) => {
    for (let time = 0; time < times; time += 1) {
      note("a", { recordId: "r" });
      note("a", { recordId: "r", kind: "look_up" });
      note("a", { recordId: "r" });
    }
  };
  const counts = () => kept.flat().map(({ kind, count }) => [kind, count]);
  noteBoth(3);
  await clock.advance(second);
  noteBoth(2);
  await clock.advance(5 * second);
  const expected = [
    ["repeat", 6],
    ["look_up", 3],
    ["repeat", 4],
    ["look_up", 2],
  ];
  expect(counts()).toEqual(expected);
  for (const recordId of ["r", "r", "later", "later", "r", "r", "r"]) note("a", { recordId });
  await clock.advance(5 * second);
  expect(counts().slice(4), "of the life that was noted last").toEqual([["repeat", 3]]);
  expect(kept.flat().at(-1)?.recordId).toBe("r");
});

test("stopping writes the remaining facts at once after the current round, and leaves no timer", async () => {
  const { clock, kept, note, buffer, keeping } = setUp();
  const slow = Promise.withResolvers<void>();
  keeping(async (groups) => {
    await slow.promise;
    kept.push(groups);
  });
  note("a");
  await clock.advance(second);
  note("b");
  const stopped = buffer.stop();
  slow.resolve();
  await stopped;
  expect(kept.flat().map(({ key }) => key.key)).toEqual(["a", "b"]);
  await clock.advance(10 * second);
  expect(kept).toHaveLength(2);
});

test("stopping writes all that wait, and reports what half a second was too short for", async () => {
  const { kept, dropped, note, buffer } = setUp();
  for (let number = 0; number < 1_200; number += 1) note(`key-${number}`);
  await buffer.stop();
  expect(kept.map((groups) => groups.length)).toEqual([500, 500, 200]);
  expect(dropped).toEqual([]);

  const slow = setUp();
  slow.keeping(() => new Promise(() => {}));
  for (let number = 0; number < 1_200; number += 1) slow.note(`key-${number}`);
  const stopped = slow.buffer.stop();
  await slow.clock.advance(second);
  await stopped;
  expect(slow.dropped).toEqual([[700, null]]);
  slow.note("late");
  await slow.clock.advance(10 * second);
  expect(slow.dropped, "no more rounds").toHaveLength(1);
});
