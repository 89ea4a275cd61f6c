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

test("the page's table of silent rollbacks is what the tests show, of the versions that they run on", () => {
  const page = read("docs/transactions/README.md");
  const table = page.slice(page.indexOf("| Client, alone |")).split("\n\n")[0] ?? "";
  const lines = table.split("\n").slice(2);
  const versions: Readonly<Record<string, string>> = JSON.parse(read("package.json")).devDependencies;
  expect(lines.pop()).toBe(`| Slonik ${versions.slonik} | success | no bridge |`);
  expect(lines).toHaveLength(Object.keys(clients).length);
  for (const [index, way] of Object.values(clients).entries()) {
    const [client = "", alone = "", latchkey = ""] = (lines[index] ?? "").slice(2, -2).split(" | ");
    expect(client).toContain(` ${versions[way.package]}`);
    expect(alone.replace("the failure", "failure"), client).toMatch(new RegExp(`^${way.reports}`, "u"));
    expect(latchkey, client).toBe("`transaction-aborted`");
  }
});
