/** The recipe "The secure golden path": what an attacker, a crash and an outage of the store do to it. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { readLedger } from "../../../examples/payments/provider-ledger.ts";
import { spawnWorker, type WorkerProcess } from "../../support/processes.ts";
import { type FreshDatabase, freshDatabase, sharedPostgres } from "../../support/shared-postgres.ts";
import { until } from "../../support/until.ts";
import { type Recipe, recipeFolder, startRecipe } from "./recipe.ts";

let database: FreshDatabase;
let pool: pg.Pool;

beforeAll(async () => {
  database = await freshDatabase();
  pool = new pg.Pool({ connectionString: database.url });
  pool.on("error", () => {});
});

afterAll(async () => {
  await pool.end();
  await database.drop();
});

const secrets = {
  KEY_SECRET: randomBytes(32).toString("hex"),
  ANSWER_SECRET: randomBytes(32).toString("base64"),
};
const ann = {};
const bob = { authorization: "Bearer acme-other-token" };
const carol = { authorization: "Bearer umbrella-token" };

interface Provider {
  readonly worker: WorkerProcess;
  readonly url: string;
  readonly ledger: string;
}

async function startProvider(): Promise<Provider> {
  const ledger = join(recipeFolder(), "provider.jsonl");
  const script = new URL("../../../examples/payments/provider.ts", import.meta.url);
  const worker = spawnWorker(script, { env: { PROVIDER_PORT: "0", PROVIDER_LEDGER: ledger } });
  return { worker, url: String((await worker.ready()).url), ledger };
}

async function misbehave({ url }: Provider, mode: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  await fetch(`${url}/mode`, { method: "PUT", headers, body: JSON.stringify({ mode }) });
}

const environment = (providerUrl: string) => ({
  DATABASE_URL: database.url,
  PROVIDER_URL: providerUrl,
  ...secrets,
});
const start = (providerUrl = "http://127.0.0.1:2") =>
  startRecipe("golden-path/main.ts", environment(providerUrl));

const keyOf = (name: string) => `${name}-0123456789abcdef`;
const pay = (service: Recipe, name: string, headers: Record<string, string> = ann, amount: unknown = 500) =>
  service.post("/payments", keyOf(name), { amount }, headers);

const codeIn = (body: string) => (JSON.parse(body) as { code?: string }).code;

async function payments(amount: number): Promise<number> {
  const { rows } = await pool.query("select count(*)::int as count from payments where amount = $1", [
    amount,
  ]);
  return rows[0].count;
}

test("tenants and principals apart, keys of one form, limits, and nothing readable in the tables", async () => {
  const service = await start();
  const [one, other] = await Promise.all([pay(service, "both"), pay(service, "both")]);
  expect([one.status, one.body]).toEqual([201, other.body]);
  expect([one.replayed, other.replayed].sort()).toEqual([false, true]);
  expect(one.headers.get("idempotency-expires")).toMatch(/GMT$/u);

  expect((await pay(service, "both", bob)).status).toBe(422);
  const carols = await pay(service, "both", carol);
  expect(carols).toMatchObject({ status: 201, replayed: false });
  expect((await service.get(one.headers.get("location") ?? "", carol)).status).toBe(404);
  expect((await pay(service, "both", ann, 900)).status).toBe(422);
  expect((await pay(service, "both", { "x-api-version": "2" })).status).toBe(422);

  for (const key of [null, "short", "ann.smith@example.com", "undefined"]) {
    expect((await service.post("/payments", key, { amount: 500 })).status).toBe(400);
  }
  const old = { "repeatability-first-sent": "Sun, 06 Nov 1994 08:49:37 GMT" };
  expect((await pay(service, "old", old)).status).toBe(412);
  expect((await pay(service, "mended", ann, "a lot")).status).toBe(400);
  expect((await pay(service, "mended")).status).toBe(201);

  const { rows } = await pool.query("select r::text as record from latchkey.records r");
  expect(rows.length).toBeGreaterThan(0);
  for (const { record } of rows) expect(record).not.toContain("0123456789abcdef");

  const last = await until(async () => {
    const answer = await pay(service, `flood-${randomBytes(4).toString("hex")}`, bob, 1);
    return answer.status === 201 ? undefined : answer;
  });
  expect(last?.status).toBe(429);
  expect(codeIn(last?.body ?? "")).toBe("too-many-keys");
  expect((await pay(service, "both")).status).toBe(201);
  expect(await payments(900)).toBe(0);
});

test("killed after the provider has charged: one charge, and the books agree", async () => {
  const provider = await startProvider();
  await misbehave(provider, "time-out-after-charging");
  let service = await start(provider.url);
  const first = await pay(service, "killed", ann, 700);
  expect(first.status).toBe(201);
  await provider.worker.line(({ signal, amount }) => signal === "charged" && amount === 700);
  await service.worker.kill("SIGKILL");
  await misbehave(provider, "ok");
  service = await start(provider.url);
  await until(
    async () => {
      const { rows } = await pool.query("select charge from payments where amount = 700");
      return rows[0].charge !== null;
    },
    { what: "the charge is known", timeoutMs: 90_000 },
  );
  expect(await pay(service, "killed", ann, 700)).toMatchObject({
    status: 201,
    replayed: true,
    body: first.body,
  });
  const of700 = readLedger(provider.ledger).filter(
    (entry) => entry.did === "charge" && entry.charge.amount === 700,
  );
  expect(of700).toHaveLength(1);
  await until(async () => (await pool.query("select from payments where charge is null")).rows.length === 0, {
    what: "every payment is charged",
  });
  await service.worker.kill("SIGTERM");

  const agreed = await compareWith(provider.url);
  expect(agreed.code, agreed.stderr).toBe(0);
  const headers = { "content-type": "application/json", "idempotency-key": "sent by hand" };
  await fetch(`${provider.url}/charges`, { method: "POST", headers, body: '{"amount": 3}' });
  const differs = await compareWith(provider.url);
  expect(differs.code).toBe(1);
  expect(differs.report).toMatchObject({ missing: [], extra: [{ amount: 3 }], mismatched: [] });
});

async function compareWith(providerUrl: string) {
  const script = new URL("../../../examples/recipes/golden-path/main.ts", import.meta.url);
  const job = spawnWorker(script, {
    args: ["compare"],
    env: { ...environment(providerUrl), MINUTES_AGO: "0" },
  });
  const { code } = await job.exited;
  return { code, report: job.lines.at(-1), stderr: job.stderr() };
}

test("without its database nothing runs, and it comes back by itself", async () => {
  const service = await start();
  const name = new URL(database.url).pathname.slice(1);
  const admin = new pg.Client({ connectionString: await sharedPostgres() });
  await admin.connect();
  await admin.query(`alter database ${name} with allow_connections false`);
  await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", [name]);
  const down = await pay(service, "down", ann, 800);
  expect([down.status, codeIn(down.body)]).toEqual([503, "store-unavailable"]);
  await admin.query(`alter database ${name} with allow_connections true`);
  await admin.end();
  await until(async () => (await pay(service, "down", ann, 800)).status === 201);
  expect(await payments(800)).toBe(1);
});

test("its own test reads its routes, and fails when one is not protected", async () => {
  const folder = fileURLToPath(new URL("../../../examples/recipes/golden-path/", import.meta.url));
  const read = (name: string) => readFileSync(join(folder, name), "utf8");
  const copy = mkdtempSync(join(folder, "../.copy-"));
  onTestFinished(() => rmSync(copy, { recursive: true }));
  const run = (app: string) => {
    writeFileSync(join(copy, "app.ts"), app);
    writeFileSync(join(copy, "routes.test.ts"), read("routes.test.ts"));
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const args = ["--conditions=latchkey-source", "--test", "routes.test.ts"];
    return spawnSync(process.execPath, args, { cwd: copy, env, encoding: "utf8" });
  };
  expect(run(read("app.ts"))).toMatchObject({ status: 0 });
  const forgetful = read("app.ts").replace('  app.get("/payments/:id"', '  app.delete("/payments/:id"');
  const failed = run(forgetful);
  expect(failed.status).toBe(1);
  expect(failed.stdout).toContain("DELETE /payments/:id");
});
