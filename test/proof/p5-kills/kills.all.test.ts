/** A part of P5, with the points of the day. LATCHKEY_PROVE=1: all of it. */
import { expect, test } from "vitest";
import { tier } from "./tier.ts";

const volume = process.env.LATCHKEY_PROVE === "1" ? "full" : "small";
/** Others each day, and the same all day. */
const seed = BigInt(Math.floor(Date.now() / 86_400_000));

test("killed at every port call", async () => {
  const say = (line: string) => process.stdout.write(`P5: ${line}\n`);
  const { covered, reached } = await tier.run({
    volume,
    untilMs: Number.POSITIVE_INFINITY,
    seed,
    resume: null,
    say,
  });
  for (const { what, count } of covered) say(`${count} ${what}`);
  expect(covered.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThan(20);
  expect(reached["unanswered COMMIT: committed"]).toBeGreaterThan(0);
});
