import { expect, test } from "vitest";
import { findExportProblems, type Surface } from "./check-exports.ts";

const row = (name: string) => ({
  "latchkey-source": `./src/${name}.ts`,
  types: `./dist/${name}.d.ts`,
  default: `./dist/${name}.js`,
});

const sound: Surface = {
  exports: {
    ".": row("index"),
    "./memory": row("stores/memory"),
    "./store": row("stores/store"),
  },
  files: new Map([
    ["src/index.ts", ""],
    ["src/index.test.ts", ""],
    ["src/stores/memory.ts", ""],
    ["src/stores/memory.concurrency.test.ts", 'import type { Store } from "./store.ts";'],
    ["src/stores/store.ts", ""],
    ["src/stores/private.ts", ""],
  ]),
  modulesTable: [
    "| Module | Source | What |",
    "| --- | --- | --- |",
    "| `latchkey` | `src/index.ts` | the start |",
    "| `latchkey/memory` | `src/stores/memory.ts` | a store |",
    "| `latchkey/store` | `src/stores/store.ts` | the contract |",
  ].join("\n"),
};

const messages = (surface: Surface) => findExportProblems(surface).map((problem) => problem.message);
const without = (path: string) => new Map([...sound.files].filter(([name]) => name !== path));

test("four equal lists have no problem; private modules need no row", () => {
  expect(messages(sound)).toEqual([]);
});

test("a wildcard is rejected", () => {
  const exports = { ...sound.exports, "./*": row("*") };
  expect(messages({ ...sound, exports })).toContainEqual(expect.stringContaining("wildcard"));
});

test.each([
  ["without the source condition", { types: "./dist/index.d.ts", default: "./dist/index.js" }],
  ["with another built file", { ...row("index"), default: "./dist/other.js" }],
  ["with one condition more", { ...row("index"), require: "./dist/index.cjs" }],
  ["as a bare string", "./dist/index.js"],
])("a row %s is refused", (_, wrong) => {
  const exports = { ...sound.exports, ".": wrong };
  expect(messages({ ...sound, exports })).toContainEqual(
    expect.stringContaining('exports["."] must be of the form'),
  );
});

test("an export without a source file, a test or a row in the table is rejected", () => {
  expect(messages({ ...sound, files: without("src/stores/store.ts") })).toEqual([
    'exports["./store"] has no source file src/stores/store.ts',
  ]);
  expect(messages({ ...sound, files: without("src/index.test.ts") })).toEqual([
    expect.stringContaining('exports["."] has no test'),
  ]);
  const modulesTable = sound.modulesTable.replace(/.*stores\/memory.*\n/, "");
  expect(messages({ ...sound, modulesTable })).toEqual([
    "has no row for latchkey/memory (`src/stores/memory.ts`)",
  ]);
});

test("a table row without an export, with another file, or twice is rejected", () => {
  const added = (line: string) => messages({ ...sound, modulesTable: `${sound.modulesTable}\n${line}` });
  expect(added("| `latchkey/redis` | `src/stores/redis.ts` | later |")).toEqual([
    "names latchkey/redis, which packages/latchkey/package.json does not export",
  ]);
  expect(added("| `latchkey` | `src/main.ts` | the start |")).toEqual([
    "has a second row for latchkey",
    "names src/main.ts; the source of latchkey is src/index.ts",
  ]);
});

test("a test without its module is rejected; a folder may have tests of its own", () => {
  const files = (path: string) => new Map([...sound.files, [path, ""]]);
  expect(messages({ ...sound, files: files("src/stores/redis.test.ts") })).toHaveLength(1);
  expect(messages({ ...sound, files: files("src/stores/stores.test.ts") })).toEqual([]);
  expect(messages({ ...sound, files: files("src/stores.test.ts") })).toEqual([]);
  expect(messages({ ...sound, files: files("test/races.test.ts") })).toEqual([]);
});
