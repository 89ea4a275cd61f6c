import { expect, test } from "vitest";
import { notRun } from "../../support/not-run.ts";
import { tier } from "./tier.ts";
import { variants } from "./variants.ts";

test("P0: what must hold in the model holds in every state, and what must fail fails", async () => {
  const result = await tier.run({
    volume: "small",
    untilMs: Number.POSITIVE_INFINITY,
    seed: 0n,
    resume: null,
    say: () => {},
  });
  for (const { what, reason } of result.notRun) notRun(what, reason);
  if (result.notRun.length > 0) return;
  expect(result.covered).toHaveLength(variants.length);
  for (const { count } of result.covered) expect(count).toBeGreaterThan(10);
});
