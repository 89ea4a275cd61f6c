import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { idempotencyBugs } from "./idempotency-bugs.ts";
import { knownBugs } from "./known-bugs.ts";
import { neighbourBugs } from "./neighbour-bugs.ts";
import { peerBugs } from "./peer-bugs.ts";

const root = join(import.meta.dirname, "../../..");

const all = [...knownBugs, ...idempotencyBugs, ...peerBugs, ...neighbourBugs];

test.each(all)("the tests that are named exist: $bug", ({ shownBy, why }) => {
  expect(shownBy.length > 0 || why !== undefined, "a test, or why there is none").toBe(true);
  for (const { file, title } of shownBy) expect(readFileSync(join(root, file), "utf8")).toContain(title);
});
