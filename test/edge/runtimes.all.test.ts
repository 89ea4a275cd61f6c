/** The library on Bun and Deno, with `pg` and a real Postgres: answers, replays, and processes that are killed. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { openReceiver, type Receiver } from "../faults/outbox-receiver.ts";
import { migratedDatabase } from "../postgres/harness.ts";
import { notRun } from "../support/not-run.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";
import type { RuntimeSettings } from "./runtime-service.ts";

const repository = join(import.meta.dirname, "../..");
const script = join(import.meta.dirname, "runtime-service.ts");
const bin = (name: string) => join(repository, "node_modules", name);
const runtimes = [
  ["Bun", [bin("bun/bin/bun.exe"), "--conditions=latchkey-source"]],
  [
    "Deno",
    [bin("deno/deno"), "run", "--allow-all", "--no-check", "--no-lock", "--conditions=latchkey-source"],
  ],
] as const;
const patienceMs = 60_000;

describe.each(runtimes)("%s", (name, command) => {
  const runs = existsSync(command[0]);
  if (!runs) notRun(`Latchkey on ${name}`, "its npm package's install script has not run");
  let url = "";
  let receiver: Receiver;
  let pool: pg.Pool;
  beforeAll(async () => {
    [url, receiver] = await Promise.all([migratedDatabase(), openReceiver()]);
    pool = new pg.Pool({ connectionString: url, max: 2 });
    onRelease(() => pool.end());
    await pool.query("create table orders (id serial, name text)");
  });

  function start(settings: Partial<RuntimeSettings> = {}): WorkerProcess {
    const all: RuntimeSettings = {
      databaseUrl: url,
      providerUrl: receiver.url,
      stopAt: null,
      works: false,
      ...settings,
    };
    return spawnWorker(script, { command, args: [JSON.stringify(all)], cwd: repository });
  }

  async function post(to: WorkerProcess, path: string, key: string) {
    const { port } = await to.ready(patienceMs);
    const headers = { "idempotency-key": key, "x-tenant": "t", "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify({ name: key }) };
    const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
    const replayed = response.headers.get("idempotent-replayed");
    const location = response.headers.get("location");
    return { status: response.status, text: await response.text(), replayed, location };
  }

  const placed = async (key: string) =>
    (await pool.query("select 1 from orders where name = $1", [key])).rows.length;

  test.skipIf(!runs)("a transaction is answered once and replayed, in the next process too", async () => {
    const first = start();
    const answer = await post(first, "/orders", "plain");
    expect(answer).toMatchObject({ status: 201, replayed: null });
    expect(await post(first, "/orders", "plain")).toEqual({ ...answer, replayed: "true" });
    await first.kill();
    expect(await post(start(), "/orders", "plain")).toEqual({ ...answer, replayed: "true" });
    expect(await placed("plain")).toBe(1);
  });

  test.skipIf(!runs)("killed inside a transaction: nothing stays, and the retry runs it", async () => {
    const victim = start({ stopAt: "in-transaction" });
    const cut = post(victim, "/orders", "cut").catch(() => null);
    await victim.line((line) => line.stopped === "in-transaction", patienceMs);
    await victim.kill();
    expect(await cut).toBeNull();
    const next = start();
    await until(async () => (await post(next, "/orders", "cut")).status === 201, { timeoutMs: patienceMs });
    expect(await placed("cut")).toBe(1);
  });

  test.skipIf(!runs)("killed after a call: the retry goes on, and the provider has one charge", async () => {
    const victim = start({ stopAt: "after-call" });
    const cut = post(victim, "/payments", "paid").catch(() => null);
    await victim.line((line) => line.stopped === "after-call", patienceMs);
    await victim.kill();
    expect(await cut).toBeNull();
    expect(receiver.effectsOf("paid")).toBe(1);
    const next = start();
    await until(async () => (await post(next, "/payments", "paid")).status === 201, {
      timeoutMs: patienceMs,
    });
    const replay = await post(next, "/payments", "paid");
    expect(replay).toMatchObject({ status: 201, replayed: "true" });
    expect(receiver.effectsOf("paid")).toBe(1);
  });

  test.skipIf(!runs)("a worker does what is deferred, woken by a notification", async () => {
    const service = start({ works: true });
    const accepted = await post(service, "/reports", "later");
    expect(accepted.status).toBe(202);
    const { port } = await service.ready();
    const ask = () => fetch(`http://127.0.0.1:${port}${accepted.location}`, { headers: { "x-tenant": "t" } });
    await until(async () => (await ask()).status === 201, { timeoutMs: patienceMs });
    expect(receiver.effectsOf("later")).toBe(1);
    expect(service.lines.filter((line) => "serviceError" in line)).toEqual([]);
  });
});
