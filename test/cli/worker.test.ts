/** `latchkey worker` as a process: its lines, its health, its signals, its exit codes. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { latchkey, openPlace } from "./arrange.ts";
import { ordersService } from "./configs/orders.ts";

const main = new URL("../../packages/latchkey/src/cli/main.ts", import.meta.url);
const heldConfig = join(import.meta.dirname, "configs/held.ts");

function start(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): WorkerProcess {
  return spawnWorker(main, { args: ["worker", "--config", heldConfig, ...args], env });
}

const named = (name: string) => (line: Readonly<Record<string, unknown>>) => name in line;
const namesOf = ({ lines }: WorkerProcess) => lines.map((line) => Object.keys(line)[0]);

async function healthOf(worker: WorkerProcess, init?: RequestInit) {
  const { healthPort } = await worker.ready();
  const response = await fetch(`http://127.0.0.1:${healthPort}/health`, init);
  return { status: response.status, health: response.status === 405 ? null : await response.json() };
}

describe("stopping", () => {
  test.each(["SIGTERM", "SIGINT"] as const)(
    "%s waits for the work under way, closes, and exits with 0",
    async (signal) => {
      const worker = start();
      expect(await worker.ready()).toEqual({
        ready: true,
        pid: worker.pid,
        store: "memory",
        healthPort: null,
      });
      await worker.line(named("sending"));
      process.kill(worker.pid, signal);
      expect(await worker.line(named("stopping"))).toEqual({ stopping: true, signal });
      worker.send("finish");
      expect(await worker.exited).toEqual({ code: 0, signal: null });
      expect(namesOf(worker)).toEqual(["ready", "sending", "stopping", "finished", "closed", "stopped"]);
      expect(worker.lines.at(-1)).toEqual({ stopped: true, graceful: true });
      expect(worker.stderr()).toBe("");
    },
  );

  test("a second signal ends it at once", async () => {
    const worker = start();
    await worker.line(named("sending"));
    process.kill(worker.pid, "SIGTERM");
    await worker.line(named("stopping"));
    let exited = false;
    void worker.exited.then(() => {
      exited = true;
    });
    await until(() => exited || !process.kill(worker.pid, "SIGINT"));
    expect(await worker.exited).toEqual({ code: 130, signal: null });
    expect(namesOf(worker)).not.toContain("finished");
  });

  test("two signals in a moment, as npm passes on what the terminal sends too, are one", async () => {
    const worker = start();
    await worker.line(named("sending"));
    // Two of one name would reach a busy process as one.
    process.kill(worker.pid, "SIGINT");
    process.kill(worker.pid, "SIGTERM");
    await worker.line(named("stopping"));
    worker.send("finish");
    expect(await worker.exited).toEqual({ code: 0, signal: null });
  });

  test("work that takes longer than the limit is left, and the exit code says so", async () => {
    const worker = start(["--stop-limit-ms", "20"]);
    await worker.line(named("sending"));
    process.kill(worker.pid, "SIGTERM");
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(worker.lines.at(-1)).toEqual({ stopped: true, graceful: false });
    expect(worker.stderr()).toContain("still under way after 20 ms");
  });

  test("a signal while it starts is not lost", async () => {
    const worker = start([], { HOLD_START: "1" });
    await worker.line(named("verifying"));
    process.kill(worker.pid, "SIGTERM");
    worker.send("start");
    worker.send("finish");
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(namesOf(worker).filter((name) => name !== "sending" && name !== "finished")).toEqual([
      "verifying",
      "ready",
      "stopping",
      "closed",
      "stopped",
    ]);
  });

  test("what the config leaves open does not keep it", async () => {
    const worker = start([], { LEAVE_OPEN: "1" });
    await worker.line(named("sending"));
    worker.send("finish");
    expect(await worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  });
});

describe("once", () => {
  test("a signal ends it after the work under way", async () => {
    const worker = start(["--once"]);
    await worker.line(named("sending"));
    process.kill(worker.pid, "SIGTERM");
    expect(await worker.line(named("stopping"))).toEqual({ stopping: true, signal: "SIGTERM" });
    worker.send("finish");
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(worker.lines.at(-1)).toMatchObject({
      stopped: true,
      graceful: true,
      ended: "aborted",
      effectDispatcher: { delivered: 1 },
      leaseRescuer: null,
    });
  });

  test("work that takes longer than the limit is left, and the exit code says so", async () => {
    const worker = start(["--once", "--until-ms", "20", "--stop-limit-ms", "20"]);
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(worker.lines.at(-1)).toMatchObject({ stopped: true, graceful: false, ended: "time_over" });
    expect(worker.stderr()).toContain("still under way after 20 ms");
  });
});

describe("metrics", () => {
  const metricsOf = async (worker: WorkerProcess) => {
    const { healthPort } = await worker.ready();
    const response = await fetch(`http://127.0.0.1:${healthPort}/metrics`);
    return { type: response.headers.get("Content-Type"), text: await response.text() };
  };

  test("what the config's metrics have counted, and what waits; without the gauges once its store is away", async () => {
    const worker = start(["--health-port", "0"]);
    await worker.line(named("sending"));
    const { type, text } = await metricsOf(worker);
    expect(type).toBe("text/plain; version=0.0.4");
    expect(text).toContain('api_idempotency_reserve_created_total{operation="orders.create"} 1');
    expect(text).toContain('api_idempotency_waiting{kind="effect_claimed"} 1');
    worker.send("sick");
    await worker.line(named("sick"));
    const sick = await metricsOf(worker);
    expect(sick.text).toContain("api_idempotency_reserve_created_total");
    expect(sick.text).not.toContain("waiting");
    worker.send("finish");
    await worker.kill("SIGTERM");
  });

  test("a config without any answers /metrics as every other path", async () => {
    const worker = start(["--health-port", "0"], { NO_METRICS: "1" });
    expect((await metricsOf(worker)).type).toBe("application/json");
    worker.send("finish");
    await worker.kill("SIGTERM");
  });
});

describe("health", () => {
  test("200 while its store answers and its services live, else 503, and no word of their errors", async () => {
    const worker = start(["--health-port", "0"]);
    const { status, health } = await healthOf(worker);
    expect(status).toBe(200);
    expect(health).toEqual({
      healthy: true,
      started: true,
      stopping: false,
      storeAnswers: true,
      services: ["worker", "effect-dispatcher", "outcome-reconciler", "record-cleaner"].map((name) => ({
        name,
        running: true,
        alive: true,
        lastRoundAt: expect.stringMatching(/^20\d\d-.*Z$/u),
        lastRoundFailed: false,
      })),
    });
    worker.send("sick");
    await worker.line(named("sick"));
    const sick = await healthOf(worker);
    expect(sick).toMatchObject({ status: 503, health: { healthy: false, storeAnswers: false } });
    expect(JSON.stringify(sick)).not.toContain("secret");
    expect(await healthOf(worker, { method: "POST" })).toMatchObject({ status: 405 });
    worker.send("finish");
    expect(await worker.kill("SIGTERM")).toMatchObject({ code: 0 });
  });

  test("503 before it has started and while it stops", async () => {
    const port = await freePort();
    const worker = start(["--health-port", String(port), "--health-host", "127.0.0.1"], { HOLD_START: "1" });
    await worker.line(named("verifying"));
    const ask = async () => {
      const response = await fetch(`http://127.0.0.1:${port}/`);
      return [response.status, await response.json()];
    };
    expect(await ask()).toMatchObject([503, { healthy: false, started: false, storeAnswers: null }]);
    worker.send("start");
    await worker.line(named("sending"));
    expect(await ask()).toMatchObject([200, { healthy: true }]);
    process.kill(worker.pid, "SIGTERM");
    await worker.line(named("stopping"));
    expect(await ask()).toMatchObject([503, { healthy: false, started: true, stopping: true }]);
    worker.send("finish");
    expect(await worker.exited).toMatchObject({ code: 0 });
  });

  test("a port that somebody has: it says so, and no work is begun", async () => {
    const taken = createServer().listen(0);
    const { port } = taken.address() as AddressInfo;
    const worker = start(["--health-port", String(port)]);
    expect(await worker.exited).toMatchObject({ code: 1 });
    expect(worker.stderr()).toContain("EADDRINUSE");
    expect(namesOf(worker)).toEqual(["closed"]);
    taken.close();
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0);
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe("on Postgres", () => {
  const ordersConfig = join(import.meta.dirname, "configs/orders-worker.ts");
  const startOrders = (url: string) =>
    spawnWorker(main, {
      args: ["worker", "--config", ordersConfig, "--health-port", "0"],
      env: { WORKER_DATABASE_URL: url },
    });

  test("it does what requests elsewhere have left to it, says when its database is gone, and comes back", async () => {
    const place = await openPlace();
    const proxy = await startProxy({ to: { port: Number(new URL(place.url).port) } });
    const service = ordersService(place.url, () => {
      throw new Error("requests send nothing");
    });
    const order = (key: string) =>
      service.latchkey.run(service.create, { tenant: "t", key, input: null }, async ({ attempt }) => {
        attempt.enqueue(service.receipt, { to: key });
      });
    const report = () =>
      service.latchkey.run(service.report, { tenant: "t", key: "r", input: { month: "May" } });
    await order("before");
    expect(await report()).toMatchObject({ kind: "accepted" });
    const worker = startOrders(proxy.url(place.url));
    await worker.line((line) => line.sent === "before");
    await until(async () => (await report()).kind === "replay");
    expect(await healthOf(worker)).toMatchObject({ status: 200 });
    await proxy.cut();
    await until(async () => (await healthOf(worker)).status === 503);
    await order("meanwhile");
    await proxy.pass();
    await worker.line((line) => line.sent === "meanwhile");
    await until(async () => (await healthOf(worker)).status === 200);
    expect(await worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    await service.close();
    await proxy.close();
    await place.close();
  });

  test("--once does what is due, says what it was, and ends by itself", async () => {
    const place = await openPlace();
    const service = ordersService(place.url, () => {
      throw new Error("requests send nothing");
    });
    const report = { tenant: "t", key: "r", input: { month: "May" } };
    await service.latchkey.run(
      service.create,
      { tenant: "t", key: "o", input: null },
      async ({ attempt }) => {
        attempt.enqueue(service.receipt, { to: "ada" });
      },
    );
    expect(await service.latchkey.run(service.report, report)).toMatchObject({ kind: "accepted" });
    const worker = spawnWorker(main, {
      args: ["worker", "--once", "--config", ordersConfig],
      env: { WORKER_DATABASE_URL: place.url },
    });
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(worker.lines).toEqual([
      { ready: true, pid: worker.pid, store: "postgres", once: true },
      { sent: "ada" },
      {
        stopped: true,
        graceful: true,
        ended: "nothing_due",
        pendingWork: { claimed: 1 },
        effectDispatcher: { claimed: 1, delivered: 1, retried: 0, dead: 0, left: 0, rescued: 0 },
        leaseRescuer: { found: 0, rescued: 0, resumed: 0 },
        outcomeReconciler: { found: 0, settled: 0, postponed: 0, deadLettered: 0 },
        recordCleaner: { abandoned: 0, purged: 0, forgotten: 0, effects: 0, messages: 0, audit: 0 },
      },
    ]);
    expect(await service.latchkey.run(service.report, report)).toMatchObject({ kind: "replay" });
    await service.close();
    await place.close();
  });

  test("without Latchkey's tables it says what to do, and closes what the config opened", async () => {
    const empty = await freshDatabase();
    const worker = startOrders(empty.url);
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(worker.stderr()).toContain("latchkey migrate");
    expect(worker.lines).toEqual([]);
    await empty.drop();
  });
});

describe("the config", () => {
  const folder = scratchDirectory("us");
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Loaded by the process that asks, so each has a name of its own. */
  let written = 0;
  function config(text: string): string {
    const path = join(folder, String(++written), "latchkey.config.ts");
    mkdirSync(dirname(path));
    writeFileSync(path, text);
    return path;
  }
  const say = (path: string) => latchkey("", "worker", "--config", path);

  const latchkeyText = "{ runtime: {}, startWorker() {} }";
  test.each([
    ["no default export", "export const latchkey = 1;", "no default export"],
    ["a default export that is none", "export default () => 1;", "not an object"],
    ["a field that means nothing", `export default { latchkey: ${latchkeyText}, workers: {} };`, '"workers"'],
    ["no latchkey", "export default { worker: {} };", "`latchkey` is not what"],
    ["another latchkey", "export default { latchkey: { run() {} } };", "`latchkey` is not what"],
    ["options that are none", `export default { latchkey: ${latchkeyText}, worker: 5 };`, "`worker` is no"],
    ["a close that is none", `export default { latchkey: ${latchkeyText}, close: true };`, "`close` is no"],
    [
      "a republish that is none",
      `export default { latchkey: ${latchkeyText}, republish: 1 };`,
      "`republish` is no",
    ],
  ])("%s: says what was expected", async (_, text, why) => {
    const { exitCode, out, errors } = await say(config(text));
    expect({ exitCode, out }).toEqual({ exitCode: 2, out: "" });
    expect(errors).toContain(why);
    expect(errors).toContain("export default { latchkey, worker, metrics, republish, close }");
  });

  test("one that was compiled to CommonJS", async () => {
    const path = config("").replace(/ts$/u, "cjs");
    writeFileSync(path, "exports.__esModule = true; exports.default = { worker: {} };");
    expect((await say(path)).errors).toContain("`latchkey` is not what");
  });

  test("a file that is not there", async () => {
    const { exitCode, errors } = await say(join(folder, "nowhere.ts"));
    expect(exitCode).toBe(2);
    expect(errors).toContain("There is no file");
    expect(errors).toContain("--config");
  });

  test("a module that throws shows where", async () => {
    const path = config('throw new Error("no DATABASE_URL");');
    const { exitCode, errors } = await say(path);
    expect(exitCode).toBe(1);
    expect(errors).toContain("no DATABASE_URL");
    expect(errors).toContain("latchkey.config.ts:1");
  });

  test("syntax that Node does not run, and the file of that name in the folder", async () => {
    const path = config("enum Color { Red }\nexport default {};");
    const worker = spawnWorker(main, { args: ["worker"], cwd: dirname(path) });
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(worker.stderr()).toMatch(/latchkey\.config\.ts cannot be loaded: .*enum/su);
  });

  test.each([
    [["--health-host", "127.0.0.1"]],
    [["--health-port", "65536"]],
    [["--health-port", "-1"]],
    [["--stop-limit-ms", "0"]],
    [["--until-ms", "5"]],
    [["--once", "--until-ms", "0"]],
    [["--once", "--health-port", "0"]],
    [["start"]],
  ])("%j is called wrongly", async (args) => {
    const { exitCode, out, errors } = await latchkey("", "worker", ...args);
    expect({ exitCode, out }).toEqual({ exitCode: 2, out: "" });
    expect(errors).toContain("Usage: latchkey worker");
  });
});
