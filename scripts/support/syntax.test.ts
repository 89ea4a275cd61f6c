import { expect, test } from "vitest";
import { readSyntax } from "./syntax.ts";

test("finds every form of import, its line, and whether it is still there at run time", () => {
  const { imports } = readSyntax(
    [
      'import { a } from "./a.ts";',
      'import type { B } from "./b.ts";',
      'import { type C } from "./c.ts";',
      'export * from "./d.ts";',
      'export type { E } from "./e.ts";',
      'const f = await import("./f.ts");',
      'type G = import("./g.ts").G;',
      'import "./h.ts";',
      'const text = "import { z } from \\"./z.ts\\"";',
    ].join("\n"),
  );

  expect(imports).toEqual([
    { specifier: "./a.ts", typeOnly: false, line: 1 },
    { specifier: "./b.ts", typeOnly: true, line: 2 },
    // `verbatimModuleSyntax` keeps `import {} from "./c.ts"`, so the module is still loaded.
    { specifier: "./c.ts", typeOnly: false, line: 3 },
    { specifier: "./d.ts", typeOnly: false, line: 4 },
    { specifier: "./e.ts", typeOnly: true, line: 5 },
    { specifier: "./f.ts", typeOnly: false, line: 6 },
    { specifier: "./g.ts", typeOnly: true, line: 7 },
    { specifier: "./h.ts", typeOnly: false, line: 8 },
  ]);
});

test.each([
  ["setTimeout(f, 1)", "setTimeout"],
  ["const sleep = setTimeout;", "setTimeout"],
  ["const timers = { setTimeout };", "setTimeout"],
  ["globalThis.setTimeout(f, 1)", "setTimeout"],
  ["globalThis.Date.now()", "Date.now"],
  ["const now = Date.now;", "Date.now"],
  ["const f = (now = performance.now) => now();", "performance.now"],
  ["lookup[setTimeout]", "setTimeout"],
  ['import { randomUUID as id } from "node:crypto";', "randomUUID"],
])("%s reads %s", (text, name) => {
  expect(readSyntax(text).reads.map((use) => use.name)).toContain(name);
});

test.each([
  "clock.setTimeout(f, 1)",
  "const ports = { setTimeout: f };",
  "interface Ports { setTimeout(f: () => void): void }",
  "class Ports { setTimeout(): void {} }",
  'const text = "setTimeout";',
  "// setTimeout",
])("%s does not read setTimeout", (text) => {
  expect(readSyntax(text).reads.map((use) => use.name)).not.toContain("setTimeout");
});

test("distinguishes a call without arguments from one with arguments", () => {
  const calls = (text: string) => readSyntax(text).emptyCalls.map((use) => use.name);
  expect(calls("const now = new Date();")).toContain("Date");
  expect(calls("const now = new Date;")).toContain("Date");
  expect(calls("const then = new Date(0);")).not.toContain("Date");
});
