import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { planted } from "./bug.ts";
import { bugs } from "./bugs.ts";

const source = join(import.meta.dirname, "../../../packages/latchkey/src");

test("each planted bug is one of its own, and fits the code as it is", () => {
  expect(new Set(bugs.map(({ name }) => name)).size).toBe(bugs.length);
  expect(bugs.length).toBeGreaterThanOrEqual(30);
  for (const { changes } of bugs) {
    const texts = new Map<string, string>();
    for (const change of changes) {
      const before = texts.get(change.file) ?? readFileSync(join(source, change.file), "utf8");
      texts.set(change.file, planted(before, change));
    }
  }
});
