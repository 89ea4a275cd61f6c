/** `ops/alerts.yml` as Prometheus itself reads it: `promtool` checks the rules and runs their unit tests. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { debianTool } from "../support/debian-tools.ts";
import { notRun } from "../support/not-run.ts";

const run = promisify(execFile);
const ops = join(import.meta.dirname, "../../ops");

test.each([
  ["check", "alerts.yml"],
  ["test", "alerts.test.yml"],
])("promtool %s rules %s", async (what, file) => {
  const promtool = await debianTool("promtool");
  if (promtool === null) {
    notRun("tests of the alerts", "no promtool, and no Debian packages to be had");
    return;
  }
  const { stdout } = await run(promtool, [what, "rules", join(ops, file)]);
  expect(stdout).toContain("SUCCESS");
});
