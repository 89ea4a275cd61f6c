import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { threats } from "./threats.ts";

const root = join(import.meta.dirname, "../../..");

test.each(threats)("the tests that are named exist: $threat", ({ shownBy }) => {
  expect(shownBy.length).toBeGreaterThan(0);
  for (const { file, title } of shownBy) expect(readFileSync(join(root, file), "utf8")).toContain(title);
});
