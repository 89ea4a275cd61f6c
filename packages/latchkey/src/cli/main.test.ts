import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const main = join(import.meta.dirname, "main.ts");

test("the entry point runs under plain Node and hands its exit code on", async () => {
  const printed = await promisify(execFile)(process.execPath, [main, "migrate", "--sql"]);
  expect(printed.stdout).toContain('create table "latchkey".records');
  expect(printed.stderr).toBe("");
  const failing = promisify(execFile)(process.execPath, [main, "nonsense"]);
  await expect(failing).rejects.toMatchObject({ code: 2, stdout: "" });
});
