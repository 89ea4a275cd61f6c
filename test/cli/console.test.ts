/** `latchkey console` as a process: its address, its token, its exit codes. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildConsolePage } from "../support/console-page.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { bareDoubt, keyOf, latchkeyUnder, openPlace, type Place } from "./arrange.ts";

const main = new URL("../../packages/latchkey/src/cli/main.ts", import.meta.url);
const repository = join(import.meta.dirname, "../..");
const heldConfig = join(import.meta.dirname, "configs/held.ts");
const token = "a token of the tests";

let place: Place;
beforeAll(async () => {
  await buildConsolePage();
  place = await openPlace();
  await bareDoubt(place, keyOf("order-1"));
});
afterAll(() => place.close());

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): WorkerProcess {
  return spawnWorker(main, { args: ["console", "--port", "0", ...args], env, cwd: repository });
}

async function addressOf(worker: WorkerProcess): Promise<URL> {
  const line = await worker.line(({ text }) => String(text).startsWith("Console on "));
  return new URL(String(line.text).slice("Console on ".length));
}

async function ask(address: URL, path: string) {
  const secret = new URLSearchParams(address.hash.slice(1)).get("token") ?? "";
  const response = await fetch(new URL(path, address), { headers: { authorization: `Bearer ${secret}` } });
  return { status: response.status, body: await response.json() };
}

test("serves a service's console under a token of its own, and stops when it is asked to", async () => {
  const worker = start(["--config", heldConfig, "--title", "staging"]);
  const address = await addressOf(worker);
  expect(address.hostname).toBe("127.0.0.1");
  expect(await (await fetch(new URL("/", address))).text()).toContain('<div id="root">');
  expect(await ask(address, "/api/session")).toMatchObject({
    status: 200,
    body: { mayAct: true, redacts: true, title: "staging" },
  });
  expect((await fetch(new URL("/api/session", address))).status).toBe(401);
  expect(await worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  expect(worker.lines).toContainEqual({ closed: true });
});

test("on a database alone it is read-only, under the token that was given", async () => {
  const worker = start(["--database-url", place.url], { LATCHKEY_CONSOLE_TOKEN: token });
  const address = await addressOf(worker);
  expect(new URLSearchParams(address.hash.slice(1)).get("token")).toBe(token);
  expect((await ask(address, "/api/session")).body).toMatchObject({ mayAct: false });
  expect((await ask(address, "/api/records?state=unknown")).body).toMatchObject({
    items: [{ key: "order-1" }],
  });
  await worker.line(({ text }) => text === "It is read-only.");
  expect(await worker.kill("SIGINT")).toEqual({ code: 0, signal: null });
});

describe("refuses", () => {
  const run = async (env: Readonly<Record<string, string>>, ...args: readonly string[]) =>
    latchkeyUnder(env, "console", ...args);
  test.each([
    ["a config and a database", {}, ["--config", "x.ts", "--schema", "s"], /exclude each other/],
    ["a port that is none", {}, ["--port", "http"], /--port must be a whole number/],
    ["a short token", { LATCHKEY_CONSOLE_TOKEN: "secret" }, [], /at least 16 characters/],
    ["a config that is not there", {}, ["--config", "no-such.ts"], /There is no file/],
  ])("%s, with exit code 2", async (_what, env, args, says) => {
    expect(await run(env, ...args)).toMatchObject({ exitCode: 2, errors: expect.stringMatching(says) });
  });

  test("a project without the package, with what to install", async () => {
    const worker = spawnWorker(main, { args: ["console"], cwd: scratchDirectory("us") });
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(worker.stderr()).toContain("Run `npm install latchkey-console` there.");
  });
});
