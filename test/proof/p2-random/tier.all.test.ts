/** A few thousand random schedules, which reach everything that they must. */
import { expect, test } from "vitest";
import { tier } from "./tier.ts";

const seed = 0x1d3a_5f00_7c21_9be4n;

test("random schedules break nothing, and reach what they must", async () => {
  const say = (line: string) => void process.stdout.write(`P2: ${line}\n`);
  const untilMs = Number.POSITIVE_INFINITY;
  const result = await tier.run({ volume: "small", untilMs, seed, resume: null, say });
  for (const { what, count } of result.covered) process.stdout.write(`P2: ${count} ${what}\n`);
  expect(result.covered.every(({ complete }) => complete)).toBe(true);
  expect(Object.keys(result.faults).length).toBeGreaterThan(12);
});
