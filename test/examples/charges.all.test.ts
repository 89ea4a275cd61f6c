/** `POST /charges` of the example: the provider misbehaves, processes die, and each order is charged once. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { readLedger } from "../../examples/payments/provider-ledger.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { type FreshDatabase, freshDatabase } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";

const folder = mkdtempSync(join(tmpdir(), "latchkey-charges-"));
const ledger = join(folder, "provider.jsonl");
const leaseMs = 1_000;

interface Started {
  readonly worker: WorkerProcess;
  readonly url: string;
}

let database: FreshDatabase;
let pool: pg.Pool;
let provider: Started;
let app: Started;

beforeAll(async () => {
  database = await freshDatabase();
  pool = new pg.Pool({ connectionString: database.url });
  provider = await startProvider("0");
  app = await startApp();
});

beforeEach(() => misbehave("ok"));

afterAll(async () => {
  await app.worker.kill("SIGTERM");
  await pool.end();
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

async function startProvider(port: string): Promise<Started> {
  const worker = spawnWorker(new URL("../../examples/payments/provider.ts", import.meta.url), {
    env: { PROVIDER_PORT: port, PROVIDER_LEDGER: ledger },
  });
  return { worker, url: String((await worker.ready()).url) };
}

async function startApp(): Promise<Started> {
  const worker = spawnWorker(new URL("../../examples/payments/server.ts", import.meta.url), {
    env: {
      PORT: "0",
      DATABASE_URL: database.url,
      PROVIDER_URL: provider.url,
      LEASE_MS: String(leaseMs),
    },
    cwd: folder,
  });
  const line = await worker.line(({ text }) => String(text).includes("API on http"), 60_000);
  return { worker, url: /on (http:\S+),/u.exec(String(line.text))?.[1] ?? "" };
}

async function misbehave(mode: string): Promise<void> {
  const body = JSON.stringify({ mode });
  const headers = { "content-type": "application/json" };
  const { ok } = await fetch(`${provider.url}/mode`, { method: "PUT", headers, body });
  expect(ok).toBe(true);
}

const auth = { authorization: "Bearer demo-token" };

async function charge(order: string, amount: unknown = 500) {
  const response = await fetch(`${app.url}/charges`, {
    method: "POST",
    headers: { ...auth, "content-type": "application/json", "idempotency-key": `key-${order}` },
    body: JSON.stringify({ order, amount }),
  });
  return {
    status: response.status,
    replayed: response.headers.has("idempotent-replayed"),
    body: await response.text(),
  };
}

const charged = (order: string) =>
  readLedger(ledger).filter((entry) => entry.did === "charge" && entry.charge.description === order);

async function rowsOf(order: string) {
  const rows = (await (await fetch(`${app.url}/charges`, { headers: auth })).json()) as { order: string }[];
  return rows.filter((row) => row.order === order);
}

test("an order is charged once, and the retry gets the same answer", async () => {
  const first = await charge("plain");
  expect(first).toMatchObject({ status: 201, replayed: false });
  expect(await charge("plain")).toEqual({ ...first, replayed: true });
  expect((await charge("plain", 900)).status).toBeGreaterThanOrEqual(400);
  expect((await charge("plain", -1)).status).toBe(400);
  expect(charged("plain")).toHaveLength(1);
  expect(await rowsOf("plain")).toMatchObject([{ state: "charged", charge: expect.stringMatching(/^ch_/u) }]);
});

test("a declined card stays declined", async () => {
  await misbehave("refuse");
  const first = await charge("declined");
  expect(first).toMatchObject({ status: 402, replayed: false });
  await misbehave("ok");
  expect(await charge("declined")).toEqual({ ...first, replayed: true });
  expect(charged("declined")).toEqual([]);
  expect(await rowsOf("declined")).toMatchObject([{ state: "refused", charge: null }]);
});

test.each(["answers 503", "refuses connections"])(
  "a provider that %s: nothing happened, and the retry charges once without recording the order twice",
  async (how) => {
    const order = how.replace(" ", "-");
    const { port } = new URL(provider.url);
    if (how === "answers 503") await misbehave("down");
    else await provider.worker.kill("SIGKILL");
    expect((await charge(order)).status).toBeGreaterThanOrEqual(500);
    expect(charged(order)).toEqual([]);
    expect(await rowsOf(order)).toMatchObject([{ state: "begun" }]);
    if (how === "answers 503") await misbehave("ok");
    else provider = await startProvider(port);
    expect(await charge(order)).toMatchObject({ status: 201, replayed: false });
    expect(charged(order)).toHaveLength(1);
    expect(await rowsOf(order)).toMatchObject([{ state: "charged" }]);
  },
);

test("the process dies and its client never comes back: a worker finishes the charge", async () => {
  await misbehave("time-out-after-charging");
  const lost = charge("orphan").catch((error: Error) => error);
  await provider.worker.line((line) => line.description === "orphan");
  await app.worker.kill("SIGKILL");
  expect(await lost).toBeInstanceOf(Error);
  await misbehave("ok");
  const store = postgresStore({ pool });
  await until(async () => (await store.settlement.resumable(["payments.charge"], 1)).length > 0);
  await store.close();

  app = await startApp();
  await until(async () => (await rowsOf("orphan")).some((row) => "state" in row && row.state === "charged"));
  expect(charged("orphan")).toHaveLength(1);
  expect(await rowsOf("orphan")).toHaveLength(1);
  expect(await charge("orphan")).toMatchObject({ status: 201, replayed: true });
});
