/** A sample of each part, on every store. */
import { expect, test } from "vitest";
import { notRun } from "../../support/not-run.ts";
import { Lane } from "./lane.ts";
import { memory } from "./memory-bench.ts";
import { parts } from "./parts.ts";
import { tier, withFixed } from "./tier.ts";

const seed = 0x5eed_0003n;
const untilMs = Number.POSITIVE_INFINITY;

test("a sample of each part, on every store", async () => {
  const say = (line: string) => void process.stdout.write(`P3: ${line}\n`);
  const result = await tier.run({ volume: "small", untilMs, seed, resume: null, say });
  for (const { what, reason } of result.notRun) notRun(`P3 on ${what}`, reason);
  expect(result.covered.map(({ complete }) => complete)).toEqual(parts.flatMap(() => [true, true]));
  expect(result.covered.every(({ count, of }) => count === of)).toBe(true);
  expect(result.resume).toBeNull();
});

test.each(parts)("what any sitting must reach does not depend on what it draws: $name", async (part) => {
  const lane = await Lane.open([memory], { lane: 0, postgres: null });
  const reached = await withFixed(lane, part, {});
  expect(part.always.filter((what) => !reached[what])).toEqual([]);
  await lane.close();
});
