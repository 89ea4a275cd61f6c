/** A bridge that is missing from the registry would be missing from every test over all clients. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../scripts/support/repository.ts";
import { clients } from "./clients.ts";

const read = (path: string) => readFileSync(join(repositoryRoot, path), "utf8");
const exported: Readonly<Record<string, Readonly<Record<string, string>>>> = JSON.parse(
  read("packages/latchkey/package.json"),
).exports;
const bridges = Object.entries(exported)
  .filter(([, row]) => row["latchkey-source"]?.startsWith("./src/sql/"))
  .map(([name]) => name.replace("./", ""));

test("has every bridge that the package exports, and no other", () => {
  const modules = Object.values(clients).map(({ module }) => module);
  expect([...new Set<string>(modules)].sort()).toEqual(bridges.sort());
});

test.each(Object.entries(clients))(
  "%s: the example, the page, and a row where the documents list clients",
  (_, client) => {
    const { module } = client;
    expect(existsSync(join(repositoryRoot, `examples/transactions/${module}.ts`))).toBe(true);
    expect(existsSync(join(repositoryRoot, `docs/transactions/${module}.md`))).toBe(true);
    for (const page of ["docs/transactions/README.md", "docs/modules.md"]) {
      expect(read(page), page).toContain(`\`latchkey/${module}\``);
    }
  },
);

/** Rows of the page's table, by how they begin: the client's entry here, and the package that it pins. */
const rows = [
  ["`pg` ", "pg", "pg"],
  ["Drizzle ", "Drizzle", "drizzle-orm"],
  ["Knex ", "Knex", "knex"],
  ["Objection ", "Objection", "objection"],
  ["MikroORM ", "MikroORM", "@mikro-orm/postgresql"],
  ["Prisma ", "Prisma", "@prisma/client"],
  ["Sequelize ", "Sequelize", "sequelize"],
  ["Slonik ", "Slonik", "slonik"],
  ["TypeORM ", "TypeORM", "typeorm"],
  ["postgres.js ", "postgres.js, with a cursor", "postgres"],
  ["postgres.js ", "postgres.js", "postgres"],
  ["Kysely ", "Kysely", "kysely"],
] as const;

test("the page's table of silent rollbacks is what the tests show, of the versions that they run on", () => {
  const page = read("docs/transactions/README.md");
  const table = page.slice(page.indexOf("| Client, alone |")).split("\n\n")[0] ?? "";
  const lines = table.split("\n").slice(2);
  const versions: Readonly<Record<string, string>> = JSON.parse(read("package.json")).devDependencies;
  expect(lines).toHaveLength(rows.length);
  expect(Object.keys(clients).filter((name) => !rows.some(([, entry]) => entry === name))).toEqual([]);
  for (const [index, [start, entry, dependency]] of rows.entries()) {
    const reports = entry === "Slonik" ? "success" : clients[entry].reports;
    const through = entry === "Slonik" ? "no bridge" : "`transaction-aborted`";
    const [client = "", alone = "", latchkey = ""] = (lines[index] ?? "").slice(2, -2).split(" | ");
    expect(client).toContain(`${start}${versions[dependency]}`);
    expect(alone.replace("the failure", "failure"), client).toMatch(new RegExp(`^${reports}`, "u"));
    expect(latchkey, client).toBe(through);
  }
});
