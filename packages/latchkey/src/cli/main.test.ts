import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const main = join(import.meta.dirname, "main.ts");

test("the entry point runs under plain Node and passes its exit code on", async () => {
  const printed = await promisify(execFile)(process.execPath, [main, "migrate", "--sql"]);
  expect(printed.stdout).toContain('create table "latchkey".records');
  expect(printed.stderr).toBe("");
  const failing = promisify(execFile)(process.execPath, [main, "nonsense"]);
  await expect(failing).rejects.toMatchObject({ code: 2, stdout: "" });
});

test("on a Node that is too old the command and the library fail with one sentence", async () => {
  const old = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.19.0" } })`;
  const preload = `data:text/javascript,${encodeURIComponent(old)}`;
  const sentence = "Latchkey needs Node 22.3 or newer, and this process runs on Node 20.19.0.";
  const execute = promisify(execFile);
  const command = execute(process.execPath, ["--import", preload, main, "--version"]);
  await expect(command).rejects.toMatchObject({ code: 1, stdout: "", stderr: `${sentence}\n` });
  const library = execute(process.execPath, ["--import", preload, join(main, "../../index.ts")]);
  await expect(library).rejects.toMatchObject({ stderr: expect.stringContaining(`Error: ${sentence}`) });
});
