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
  "%s: the example, and a row where the documents list clients",
  (_, client) => {
    const { module, example } = client;
    expect(existsSync(join(repositoryRoot, `examples/transactions/${module}.ts`))).toBe(example);
    for (const page of ["docs/transactions/README.md", "docs/modules.md"]) {
      expect(read(page), page).toContain(`\`latchkey/${module}\``);
    }
  },
);
