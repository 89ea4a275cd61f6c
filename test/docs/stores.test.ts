/** docs/stores.md: each cell of what can be lost names tests, says that it is not tested, or repeats the cell before it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const document = readFileSync(join(root, "docs/stores.md"), "utf8");
const section = document.slice(document.indexOf("## What each can lose"), document.indexOf("## Postgres"));
const lines = section.split("\n");

const notes = new Map(
  lines.flatMap((line) => {
    const [, number, file, titles] = /^(\d+)\. `([^`]+)`: (.+)$/u.exec(line) ?? [];
    return number && file && titles ? [[number, { file, titles: titlesOf(titles) }] as const] : [];
  }),
);
const rows = lines
  .filter((line) => line.startsWith("| ") && !line.startsWith("| ---"))
  .slice(1)
  .map((line) => line.slice(2, -2).split(" | "));

function titlesOf(text: string): readonly string[] {
  return [...text.matchAll(/"([^"]+)"/gu)].map(([, title]) => title ?? "");
}

const numbersIn = (text: string) => [...text.matchAll(/\[(\d+)\]/gu)].map(([, number]) => number ?? "");

/** What is wrong with a cell; null: nothing. */
function problemOf(cell: string): string | null {
  if (["does not apply", "the same"].includes(cell) || cell.includes("(not tested: ")) return null;
  const numbers = numbersIn(cell);
  if (numbers.length === 0) return "names no test";
  const missing = numbers.find((number) => !notes.has(number));
  return missing === undefined ? null : `names [${missing}], which does not exist`;
}

describe("what each store can lose", () => {
  test("is a table of three stores, each cell backed by a test", () => {
    expect(rows.length).toBeGreaterThan(5);
    for (const [what, ...cells] of rows) {
      expect(cells, what).toHaveLength(3);
      expect(cells[0], `${what}: the first has none before it`).not.toBe("the same");
      for (const cell of cells) expect(problemOf(cell), `${what}: ${cell}`).toBeNull();
    }
  });

  test("names no test for nothing", () => {
    const named = new Set(rows.flat().flatMap(numbersIn));
    expect([...notes.keys()].filter((number) => !named.has(number))).toEqual([]);
    expect([...notes.keys()]).toEqual(Array.from({ length: notes.size }, (_, index) => String(index + 1)));
  });

  test.each([...notes])("[%s] names tests that exist", (_, { file, titles }) => {
    const text = readFileSync(join(root, file), "utf8");
    expect(titles.length).toBeGreaterThan(0);
    for (const title of titles) {
      const at = text.indexOf(`"${title}`);
      expect(at, title).toBeGreaterThan(-1);
      expect(text.slice(0, at).trimEnd(), `${title} is a test's name`).toMatch(/\($/u);
    }
  });

  test("a cell without a test is noticed", () => {
    for (const cell of ["nothing", "all [99]", ""]) expect(problemOf(cell)).not.toBeNull();
  });
});
