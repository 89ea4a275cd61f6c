/** Statements through the bridge: parameters stay bound, and values come back unchanged. */
import assert from "node:assert/strict";
import type { IsolationLevel, SqlRow, SqlStatement, SqlValue } from "latchkey";
import { commit, holdsNothing, onlyValue, statement, transact, type Work } from "./arrange.ts";
import type { BridgeCase } from "./case.ts";

const allBytes = Uint8Array.from({ length: 256 }, (_, index) => index);

const samples: readonly (readonly [type: string, values: readonly SqlValue[]])[] = [
  [
    "text",
    ["", "plain", 'it\'s "quoted" \\ and $1, ?, %s, :name; --', "grüße 🔑", "x".repeat(100_000), "null"],
  ],
  ["int", [0, 1, -2_147_483_648, 2_147_483_647]],
  ["smallint", [0, -32_768]],
  ["float8", [0, 1.5, 1e300, 1_795_234_944_837]],
  ["boolean", [true, false]],
  ["bytea", [new Uint8Array(), allBytes, allBytes.subarray(100, 103)]],
];

function comparable(value: SqlValue | undefined): unknown {
  return value instanceof Uint8Array ? { bytes: Buffer.from(value).toString("hex") } : value;
}

function sameValue(rows: readonly SqlRow[] | undefined, expected: SqlValue, what: string): void {
  assert.deepEqual(comparable(onlyValue(rows)), comparable(expected), what);
}

/** Every sample, and null for every type. */
const echoes: readonly { readonly statement: SqlStatement; readonly value: SqlValue }[] = samples.flatMap(
  ([type, values]) =>
    [...values, null].map((value) => ({ statement: statement(`select $1::${type} as value`, value), value })),
);

const isolations: readonly (IsolationLevel | null)[] = [
  null,
  "read committed",
  "repeatable read",
  "serializable",
];

const isolationCases: readonly BridgeCase[] = isolations.map((isolation) => ({
  name: `isolation: ${isolation ?? "the database's default"}, and READ WRITE`,
  async run(context) {
    const [normal] = await context.outside(
      "select current_setting('default_transaction_isolation') as level",
    );
    const level = statement("select pg_catalog.current_setting('transaction_isolation') as level");
    const access = statement("select pg_catalog.current_setting('transaction_read_only') as read_only");
    const work: Work = async ({ opened }) => {
      assert.deepEqual(opened.map(onlyValue), [isolation ?? normal?.level, "off"]);
      return commit();
    };
    const outcome = await transact(context, work, { isolation, opening: [level, access] });
    assert.equal(outcome.kind, "committed");
  },
}));

export const valueCases: readonly BridgeCase[] = [
  {
    name: "values: every type arrives and comes back unchanged, in opening and closing statements",
    async run(context) {
      const statements = echoes.map((echo) => echo.statement);
      const work: Work = async ({ opened }) => {
        for (const [index, echo] of echoes.entries()) {
          sameValue(opened[index], echo.value, `in an opening statement: ${echo.statement.text}`);
        }
        return commit(statements);
      };
      const outcome = await transact(context, work, { opening: statements });
      assert.ok(outcome.kind === "committed");
      for (const [index, echo] of echoes.entries()) {
        sameValue(outcome.closed[index], echo.value, `in a closing statement: ${echo.statement.text}`);
      }
    },
  },
  {
    name: "values: placeholders may be in any order and repeated",
    async run(context) {
      const many = Array.from({ length: 12 }, (_, index) => `v${index + 1}`);
      const text = `select $12::text || $2::text || $1::text || $2::text as joined, $1::text as first,
        ${many.map((_, index) => `$${index + 1}::text`).join(" || ")} as all_of_them`;
      await transact(
        context,
        async ({ opened }) => {
          assert.deepEqual(
            { ...opened[0]?.[0] },
            { joined: "v12v2v1v2", first: "v1", all_of_them: many.join("") },
          );
          return commit();
        },
        { opening: [statement(text, ...many)] },
      );
    },
  },
  {
    name: "values: a statement without rows returns none, one with many returns all, in order",
    async run(context) {
      const none = statement("select 1 as one where false");
      const many = statement(
        "select n::int as n from pg_catalog.generate_series(1, $1::int) as n order by n",
        500,
      );
      const silent = statement("create temporary table latchkey_temporary (row text) on commit drop");
      const outcome = await transact(
        context,
        async ({ opened }) => {
          assert.deepEqual(
            opened.map(({ length }) => length),
            [0, 500, 0],
          );
          assert.deepEqual(
            opened[1]?.map(({ n }) => n),
            Array.from({ length: 500 }, (_, index) => index + 1),
          );
          return commit([none, many]);
        },
        { opening: [none, many, silent] },
      );
      assert.ok(outcome.kind === "committed");
      assert.deepEqual(
        outcome.closed.map(({ length }) => length),
        [0, 500],
      );
      await holdsNothing(context);
    },
  },
  ...isolationCases,
];
