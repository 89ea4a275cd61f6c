import { expect, test } from "vitest";
import { notRun } from "../../support/not-run.ts";
import { failover } from "./part.ts";

test("P6, failover: nothing is lost at a synchronous failover with everything in it, and planted mistakes are found", async () => {
  const lines: string[] = [];
  const result = await failover.run({
    volume: "small",
    untilMs: Number.POSITIVE_INFINITY,
    seed: 0n,
    resume: null,
    say: (line) => lines.push(line),
  });
  for (const { what, reason } of result.notRun) notRun(what, reason);
  expect(result.covered).toMatchObject([{ count: 1, of: 1, complete: true }]);
  expect(result.planted).toHaveLength(3);
  expect(result.reached["answer replayed"]).toBeGreaterThan(10);
  expect(result.faults).toMatchObject({ "primary killed": 1, "replication stalled": 1 });
  expect(lines).toHaveLength(1);
});
