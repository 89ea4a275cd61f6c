import { expect, test } from "vitest";
import { readListFacts } from "./check-lists.ts";
import { renderDecisions } from "./support/decisions.ts";
import { findListProblems, type ListFacts } from "./support/lists.ts";
import { renderMigrations } from "./support/migrations.ts";

const facts = await readListFacts();

function edited(path: string, from: string | RegExp, to: string): ListFacts {
  const text = facts.documents.get(path) ?? "";
  const changed = text.replace(from, to);
  expect(changed).not.toBe(text);
  return { ...facts, documents: new Map([...facts.documents, [path, changed]]) };
}

test("lists in the repository's documents are those of the code", () => {
  expect(facts.commands).toContain("inspect");
  expect(findListProblems(facts)).toEqual([]);
});

test.each([
  ["docs/README.md", "](proof.md)", "](prof.md)", "has no link to docs/proof.md"],
  ["docs/README.md", "](adapters/koa.md)", "](koa.md)", "has no link to docs/adapters/koa.md"],
  ["docs/cli.md", "| `latchkey list` |", "| `latchkey find` |", 'leaves out the command "list"'],
  [
    "docs/cli.md",
    "| `latchkey list` |",
    "| `latchkey find` |",
    'names the command "find", which is not there',
  ],
  [
    "docs/checklist.md",
    /^- \[.\] A body pollutes prototypes: .*\n/m,
    "",
    'leaves out the threat "A body pollutes prototypes"',
  ],
  ["CONTRIBUTING.md", /check:boundaries/g, "check:borders", "leaves out npm run check:boundaries"],
  [
    "CONTRIBUTING.md",
    /check:boundaries/g,
    "check:borders",
    "names npm run check:borders, which package.json does not have",
  ],
  ["docs/upgrading.md", "Node 22 or newer", "Node 20 or newer", 'does not say "Node 22 or newer"'],
  ["docs/upgrading.md", "Postgres 15 to 18", "Postgres 15 to 17", 'does not say "Postgres 15 to 18"'],
])("a drifted copy of %s is found: %s", (path, from, to, message) => {
  expect(findListProblems(edited(path, from, to))).toContainEqual({ where: path, message });
});

test("the table of decisions has every record with its status, and a record without one is a mistake", () => {
  const record = "# 003. What was decided\n\nStatus: accepted, replaces 001. Date: 2026-11-23.\n";
  expect(renderDecisions(new Map([["003-what.md", record]]))).toContain(
    "| [003](003-what.md) | What was decided | accepted, replaces 001 |",
  );
  expect(() => renderDecisions(new Map([["003-what.md", "# 003. What"]]))).toThrow(TypeError);
  expect(() => renderDecisions(new Map([["004-what.md", record]]))).toThrow(TypeError);
});

test("migrations are listed, and one that the code does not ask for is a mistake", () => {
  const migrations = [{ version: 1, name: "0001_records", sql: "" }];
  expect(renderMigrations(migrations, 1)).toContain("| 1 | `0001_records` |");
  expect(() => renderMigrations(migrations, 2)).toThrow(TypeError);
});
