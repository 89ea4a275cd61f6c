/** What docs/crash-story.md has a person settle, word for word, on the demo as `npm start` runs it on its embedded database. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { readCodeBlocks } from "../../scripts/support/markdown.ts";
import { repositoryRoot } from "../../scripts/support/repository.ts";
import { readCurl, sendCurl, wordsOf } from "../docs/curl.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { until } from "../support/until.ts";

const folder = mkdtempSync(join(tmpdir(), "latchkey-operator-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const commands = readCodeBlocks(readFileSync(join(repositoryRoot, "docs/crash-story.md"), "utf8"))
  .filter(({ text }) => text.startsWith("npm run latchkey -- "))
  .flatMap(({ text }) => text.replaceAll("\\\n", "").split("\n"));

/** Starts the demo. Returns it with the arguments of the `curl` line that leaves an outcome unknown, and its console's address. */
async function startDemo(): Promise<{ demo: WorkerProcess; transfer: string[]; address: string }> {
  const script = join(repositoryRoot, "examples/payments/server.ts");
  const demo = spawnWorker(script, { env: { PORT: "0" }, cwd: folder });
  const textOf = async (part: string) =>
    String((await demo.line((line) => String(line.text).includes(part), 60_000)).text).trim();
  const address = await textOf("/#token=");
  return { demo, address, transfer: wordsOf(await textOf("/trouble/unknown")).slice(1) };
}

/** Runs a command of the page where the demo runs. Returns what it printed, or what it complained about. */
async function latchkey(command: string, address: string): Promise<string> {
  const main = join(repositoryRoot, "packages/latchkey/src/cli/main.ts");
  const args = wordsOf(command.replace("npm run latchkey -- ", ""));
  const words = args.map((word) => (word === "$CONSOLE" ? address : word));
  const ended = await promisify(execFile)(process.execPath, [main, ...words], { cwd: folder }).catch(
    (error: { readonly stdout: string; readonly stderr: string }) => error,
  );
  return ended.stdout + ended.stderr;
}

test("an outcome of the demo is found, settled, and answered, while the demo runs", async () => {
  const [list = "", inspect = "", settle = ""] = commands;
  const { demo, transfer, address } = await startDemo();
  expect((await sendCurl(readCurl(transfer, ""))).statusLine).toContain("409");
  const listed = await latchkey(list, address);
  const record = listed.split("\n")[1]?.slice(listed.indexOf("RECORD")).split(" ")[0] ?? "";
  expect(await latchkey(inspect.replace("<record>", record), address)).toContain("call-in-doubt");
  const settled = await latchkey(settle.replace("<record>", record), address);
  expect(settled).toContain("unknown → retryable (settle_call)");
  await until(async () => {
    const { statusLine, body } = await sendCurl(readCurl(transfer, ""));
    return statusLine.includes("201") && body === '{"id":"tr_7","amount":500}';
  });
  await demo.stop();
});

test("the embedded database of a demo that runs is not opened a second time, and the reason is printed", async () => {
  const { demo } = await startDemo();
  const config = join(repositoryRoot, "examples/payments/latchkey.config.ts");
  expect(await latchkey(`list --config ${config}`, "")).toMatch(
    /is held by process \d+\. An embedded database belongs to one process/,
  );
  await demo.stop();
});
