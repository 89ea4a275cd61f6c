/** A sample of each scenario, at every isolation level. */
import { expect, test } from "vitest";
import { installedVersions } from "../../support/postgres-binaries.ts";
import { tier } from "./tier.ts";

const seed = 0x5eed_0004n;

test.runIf(installedVersions().length > 0)("a sample of each scenario", async () => {
  const until = Number.POSITIVE_INFINITY;
  const lines: string[] = [];
  const result = await tier.run({
    volume: "small",
    untilMs: until,
    seed,
    resume: null,
    say: (line) => lines.push(line),
  });
  expect(result.covered.map(({ complete }) => complete)).toEqual([true, true]);
  expect(result.resume).toBeNull();
});
