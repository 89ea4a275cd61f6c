/** What writes of several callers do when they are sent as one statement, with an executor that the test answers. */
import { AsyncLocalStorage } from "node:async_hooks";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LatchkeyError, StoreError } from "../../packages/latchkey/src/errors.ts";
import type { SqlRow, SqlStatement, SqlValue } from "../../packages/latchkey/src/sql/transaction.ts";
import { GatheredWrites } from "../../packages/latchkey/src/stores/postgres/gathering/gathered-writes.ts";
import { template } from "../../packages/latchkey/src/stores/postgres/statements/template.ts";

const single = template("one", "select :'id', :'data'");
const many = template("many", "select :'rows'");

interface Sent {
  readonly ids: readonly unknown[];
  readonly rows: readonly SqlRow[] | null;
  readonly context: unknown;
  answer(rows: readonly SqlRow[]): void;
  fail(error: unknown): void;
}

function setUp(context: () => unknown = () => null) {
  const sent: Sent[] = [];
  const timers = new Set<() => void>();
  const writes = new GatheredWrites({
    clock: {
      startTimer(_delayMs, task) {
        timers.add(task);
        return () => timers.delete(task);
      },
    },
    sentMax: 1,
    patienceMs: 20,
    single: (values) => single.bind(values),
    many,
    write(statement: SqlStatement) {
      const reply = Promise.withResolvers<readonly SqlRow[]>();
      const [value = null] = statement.values;
      const rows = statement.name === many.name ? (JSON.parse(String(value)) as SqlRow[]) : null;
      const ids = rows === null ? [value] : rows.map(({ id }) => id);
      sent.push({ ids, rows, context: context(), answer: reply.resolve, fail: reply.reject });
      return reply.promise;
    },
  });
  const write = (id: string, data: SqlValue = null) => writes.write({ id, data });
  /** A batch of these under way, behind one write alone. */
  const batchOf = async (...ids: readonly string[]) => {
    void write("first");
    await settled();
    const all = ids.map((id) => write(id));
    sent[0]?.answer([{ id: "first" }]);
    await settled();
    const batch = sent[1];
    if (batch?.rows === undefined) throw new Error("The batch is sent");
    expect(namesOf(sent)).toEqual(["first", ids.join()]);
    return { all, batch };
  };
  return { sent, timers, write, batchOf };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
const namesOf = (sent: readonly Sent[]) => sent.map(({ ids }) => ids.join());
const rowsOf = ({ ids }: Sent) => ids.map((id, place) => ({ place, id: String(id), of: String(id) }));
const refused = (code: string) =>
  new StoreError("rolled_back", { cause: Object.assign(new Error("refused"), { code }) });
const inDoubt = new StoreError("in_doubt", { cause: new Error("Connection terminated unexpectedly") });

describe("what is sent", () => {
  test("all writes of a burst as one statement", async () => {
    const { sent, write } = setUp();
    const burst = ["a", "b"].map((id) => write(id));
    expect(sent).toEqual([]);
    await Promise.resolve();
    void write("c");
    expect(namesOf(sent)).toEqual(["a,b"]);
    sent[0]?.answer(rowsOf(sent[0]));
    expect((await Promise.all(burst)).map((row) => row?.of)).toEqual(["a", "b"]);
    await settled();
    expect(namesOf(sent)).toEqual(["a,b", "c"]);
  });

  test("one write at once, and what comes meanwhile as one statement", async () => {
    const { sent, write, batchOf, timers } = setUp();
    const { all, batch } = await batchOf("a", "b", "c");
    const later = write("d");
    batch.answer(rowsOf(batch));
    expect((await Promise.all(all)).map((row) => row?.of)).toEqual(["a", "b", "c"]);
    await settled();
    expect(namesOf(sent)).toEqual(["first", "a,b,c", "d"]);
    sent[2]?.answer([]);
    expect(await later).toBe(null);
    await settled();
    expect(timers.size).toBe(0);
  });

  test("bytes in base64, and everything else as it is", async () => {
    const { sent, write } = setUp();
    void write("first");
    await settled();
    const values = [null, 1.5, true, "text", new Uint8Array([0, 255, 16]).subarray(1), Buffer.from("answer")];
    for (const [place, value] of values.entries()) void write(`${place}`, value);
    sent[0]?.answer([]);
    await settled();
    const expected = [null, 1.5, true, "text", "/xA=", "YW5zd2Vy"];
    expect(sent[1]?.rows).toEqual(expected.map((data, place) => ({ place, id: `${place}`, data })));
  });

  test.each([
    ["large", Buffer.alloc(16_385)],
    ["of a number that JSON does not have", Number.POSITIVE_INFINITY],
  ])("a write %s by itself, at once", async (_what, data) => {
    const { sent, write } = setUp();
    void write("a");
    void write("alone", data);
    expect(namesOf(sent)).toEqual(["alone"]);
    expect(sent[0]?.rows).toBe(null);
    await settled();
    expect(namesOf(sent)).toEqual(["alone", "a"]);
  });

  test("each in its caller's asynchronous context, a batch in that of its first", async () => {
    const request = new AsyncLocalStorage<string>();
    const { sent, write } = setUp(() => request.getStore());
    for (const id of ["first", "a", "b"]) {
      void request.run(`request ${id}`, () => write(id)).catch(() => {});
      if (id === "first") await settled();
    }
    sent[0]?.answer([]);
    await settled();
    sent[1]?.fail(refused("22021"));
    await settled();
    expect(sent.map(({ context }) => context)).toEqual(["first", "a", "a", "b"].map((id) => `request ${id}`));
  });
});

describe("what the callers get", () => {
  test("each its own row, null where its guard did not hold", async () => {
    const { batchOf } = setUp();
    const { all, batch } = await batchOf("a", "b", "c");
    const [a, , c] = rowsOf(batch);
    batch.answer([c, a].filter((row) => row !== undefined));
    expect((await Promise.all(all)).map((row) => row?.of ?? null)).toEqual(["a", null, "c"]);
  });

  test("whatever rows come back, each its own row, or all are in doubt", async () => {
    const row = fc.record({
      place: fc.integer({ min: -1, max: 3 }),
      id: fc.constantFrom("a", "b", "c", "d"),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 4 }), async (rows) => {
        const { batchOf, sent } = setUp();
        const { all, batch } = await batchOf("a", "b", "c");
        const results = Promise.allSettled(all);
        batch.answer(rows);
        const places = rows.map(({ place }) => place);
        const ok =
          new Set(places).size === places.length && rows.every(({ place, id }) => "abc"[place] === id);
        for (const [place, result] of (await results).entries()) {
          if (!ok) expect(result).toMatchObject({ reason: { certainty: "in_doubt" } });
          else expect(result).toMatchObject({ value: rows.find((one) => one.place === place) ?? null });
        }
        expect(sent).toHaveLength(2);
      }),
    );
  });

  test.each(["22021", "23514", "P0001", "XX001", "55P03", "57014", "40P01", "40001", ""])(
    "of a batch that one row or the connection may have failed (%j): each the result of its own statement",
    async (code) => {
      const { sent, batchOf } = setUp();
      const { all, batch } = await batchOf("a", "b", "c");
      const results = Promise.allSettled(all);
      batch.fail(refused(code));
      await settled();
      expect(namesOf(sent.slice(2))).toEqual(["a", "b", "c"]);
      expect(sent.slice(2).every(({ rows }) => rows === null)).toBe(true);
      sent[2]?.answer([{ id: "a" }]);
      const poison = refused(code);
      sent[3]?.fail(poison);
      sent[4]?.answer([]);
      expect(await results).toEqual([
        { status: "fulfilled", value: { id: "a" } },
        { status: "rejected", reason: poison },
        { status: "fulfilled", value: null },
      ]);
    },
  );

  test.each([
    ["in doubt", inDoubt],
    ["on a standby", refused("25006")],
    ["without a privilege", refused("42501")],
    ["on a full disk", refused("53100")],
    ["without a connection", new StoreError("not_sent", {})],
    ["without the tables", new LatchkeyError("schema-invalid")],
    ["for a reason nobody knows", new Error("what?")],
  ])("of a batch that failed %s: its error, and nothing is sent again", async (_what, error) => {
    const { sent, batchOf } = setUp();
    const { all, batch } = await batchOf("a", "b");
    const results = Promise.allSettled(all);
    batch.fail(error);
    await settled();
    expect((await results).map((one) => one.status === "rejected" && one.reason === error)).toEqual([
      true,
      true,
    ]);
    expect(sent).toHaveLength(2);
  });
});
