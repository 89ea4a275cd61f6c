/** Texts of arrays: the server reads every item as it was written. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { arrayText } from "../../packages/latchkey/src/stores/postgres/array-text.ts";
import { isStorable } from "../../packages/latchkey/src/stores/storable.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { migratedDatabase, openPool } from "./harness.ts";

const odd = [
  "",
  " ",
  "null",
  "NULL",
  "{}",
  "a,b",
  '"',
  "\\",
  '\\"',
  "\\x00",
  "\n\t",
  "{",
  "}",
  "é",
  "𝄞",
  "'",
  "a b",
];

forEachPostgres((version) => {
  test("the server reads every item as it was written", async () => {
    const pool = openPool(await migratedDatabase(version), { max: 1 });
    const read = async (items: readonly (string | null)[]) =>
      (await pool.query("select $1::text::text[] as items", [arrayText(items)])).rows[0].items;
    expect(await read([])).toEqual([]);
    expect(await read([...odd, null])).toEqual([...odd, null]);
    const items = fc.array(fc.option(fc.string({ unit: "grapheme" }).filter(isStorable)), { maxLength: 20 });
    const reads = fc.asyncProperty(items, async (some) => {
      expect(await read(some)).toEqual(some);
    });
    await fc.assert(reads);
    const numbers = await pool.query("select $1::text::float8[] as items", [arrayText([1, 1e21, -0.5])]);
    expect(numbers.rows[0].items).toEqual([1, 1e21, -0.5]);
    await pool.end();
  });
});
