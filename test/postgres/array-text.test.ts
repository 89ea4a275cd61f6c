/** Texts of arrays: the server reads every item as it was written. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  arrayText,
  optionalsText,
} from "../../packages/latchkey/src/stores/postgres/statements/array-text.ts";
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
  test.each(["on", "off"])(
    "the server reads every item as it was written, array_nulls = %s",
    async (nulls) => {
      const pool = openPool(await migratedDatabase(version), { max: 1, options: `-c array_nulls=${nulls}` });
      const read = async (text: string) =>
        (await pool.query("select $1::text::text[] as items", [text])).rows[0].items;
      expect(await read(arrayText([]))).toEqual([]);
      expect(await read(arrayText(odd))).toEqual(odd);
      expect(await read(optionalsText([...odd, null]))).toEqual([...odd.map((item) => `=${item}`), "-"]);
      const items = fc.array(fc.string({ unit: "grapheme" }).filter(isStorable), { maxLength: 20 });
      const reads = fc.asyncProperty(items, async (some) => {
        expect(await read(arrayText(some))).toEqual(some);
      });
      await fc.assert(reads);
      const numbers = await pool.query("select $1::text::float8[] as items", [arrayText([1, 1e21, -0.5])]);
      expect(numbers.rows[0].items).toEqual([1, 1e21, -0.5]);
      await pool.end();
    },
  );
});
