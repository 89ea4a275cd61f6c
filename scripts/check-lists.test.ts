import { expect, test } from "vitest";
import { stores } from "../test/proof/p3-stores/stores.ts";
import { stores as registered } from "../test/registry/stores.ts";
import { readListFacts, readRegistryFacts } from "./check-lists.ts";
import { renderDecisions } from "./support/decisions.ts";
import { findListProblems, type ListFacts } from "./support/lists.ts";
import { renderMigrations } from "./support/migrations.ts";
import { findRegistryProblems, type RegistryFacts } from "./support/registry.ts";

const facts = await readListFacts();

function edited(path: string, from: string | RegExp, to: string): ListFacts {
  const text = facts.documents.get(path) ?? "";
  const changed = text.replace(from, to);
  expect(changed).not.toBe(text);
  return { ...facts, documents: new Map([...facts.documents, [path, changed]]) };
}

test("lists in the repository's documents agree with the code", () => {
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
    'names the command "find", which does not exist',
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
  ["docs/upgrading.md", "Node 22.3 or newer", "Node 20 or newer", 'does not say "Node 22.3 or newer"'],
  ["docs/upgrading.md", "Postgres 15 to 18", "Postgres 15 to 17", 'does not say "Postgres 15 to 18"'],
])("a drifted copy of %s is found: %s", (path, from, to, message) => {
  expect(findListProblems(edited(path, from, to))).toContainEqual({ where: path, message });
});

test("the table of decisions has every record with its status; a record without a status is an error", () => {
  const record = "# 003. What was decided\n\nStatus: accepted, replaces 001. Date: 2026-11-23.\n";
  expect(renderDecisions(new Map([["003-what.md", record]]))).toContain(
    "| [003](003-what.md) | What was decided | accepted, replaces 001 |",
  );
  expect(() => renderDecisions(new Map([["003-what.md", "# 003. What"]]))).toThrow(TypeError);
  expect(() => renderDecisions(new Map([["004-what.md", record]]))).toThrow(TypeError);
});

test("migrations are listed; one that the code does not require is an error", () => {
  const migrations = [{ version: 1, name: "0001_records", sql: "" }];
  expect(renderMigrations(migrations, 1)).toContain("| 1 | `0001_records` |");
  expect(() => renderMigrations(migrations, 2)).toThrow(TypeError);
});

const registry = readRegistryFacts();

function without(path: string): RegistryFacts {
  expect(registry.files).toContain(path);
  return { ...registry, files: new Set([...registry.files].filter((one) => one !== path)) };
}

function unexported(name: string): RegistryFacts {
  expect(registry.sources.has(name)).toBe(true);
  return { ...registry, sources: new Map([...registry.sources].filter(([one]) => one !== name)) };
}

/** Without the entry in its list; its folder and its module are still there. */
function unlisted(name: string): RegistryFacts {
  const families = registry.families.map((family) => ({
    ...family,
    entries: family.entries.filter((entry) => entry.name !== name),
  }));
  return { ...registry, families };
}

test("each registered entry is in every list, and no list has others", () => {
  for (const { entries } of registry.families) expect(entries).not.toEqual([]);
  expect(findRegistryProblems(registry)).toEqual([]);
});

test.each([
  ["koa", without("docs/adapters/koa.md"), "has no file docs/adapters/koa.md"],
  [
    "koa",
    without("test/registry/frameworks/koa/neighbours.ts"),
    "has no file test/registry/frameworks/koa/neighbours.ts",
  ],
  ["koa", unexported("koa"), "has no row in exports of packages/latchkey/package.json"],
  ["knex", without("docs/transactions/knex.md"), "has no file docs/transactions/knex.md"],
  ["knex", without("examples/transactions/knex.ts"), "has no file examples/transactions/knex.ts"],
  [
    "redis",
    without("test/registry/stores/redis/fixture.ts"),
    "has no file test/registry/stores/redis/fixture.ts",
  ],
  ["test/registry/frameworks.ts", unlisted("koa"), 'leaves out "koa"'],
  ["test/registry/clients.ts", unlisted("knex"), 'leaves out "knex"'],
  ["test/registry/stores.ts", unlisted("redis"), 'leaves out "redis"'],
])("a place that is missing is found: %s, %#", (where, facts, message) => {
  expect(findRegistryProblems(facts)).toContainEqual({ where, message });
});

test("a store that its page does not name is found", () => {
  const families = registry.families.map((family) => ({
    ...family,
    documents: new Map([...family.documents].map(([path]) => [path, "latchkey/postgres"])),
  }));
  const message = "is not named in docs/stores.md";
  expect(findRegistryProblems({ ...registry, families })).toContainEqual({ where: "redis", message });
});

test("the proofs compare every store that has transactions", () => {
  const withTransactions = registered.filter(({ transactions }) => transactions).map(({ name }) => name);
  expect(stores.map(({ name }) => name).toSorted()).toEqual(withTransactions.toSorted());
});
