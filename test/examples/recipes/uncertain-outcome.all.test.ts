/** The recipe "The uncertain outcome" against a provider with a ledger of its own: each unknown is found out, and no card is charged twice. */
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readLedger } from "../../../examples/payments/provider-ledger.ts";
import { spawnWorker, type WorkerProcess } from "../../support/processes.ts";
import { type FreshDatabase, freshDatabase } from "../../support/shared-postgres.ts";
import { until } from "../../support/until.ts";
import { type Recipe, recipeFolder, startRecipe } from "./recipe.ts";

const secret = "of the provider's webhooks";

let database: FreshDatabase;
let pool: pg.Pool;

beforeAll(async () => {
  database = await freshDatabase();
  pool = new pg.Pool({ connectionString: database.url });
});

afterAll(async () => {
  await pool.end();
  await database.drop();
});

interface Provider {
  readonly worker: WorkerProcess;
  readonly port: string;
  readonly ledger: string;
}

async function startProvider(ledger = join(recipeFolder(), "provider.jsonl"), port = "0"): Promise<Provider> {
  const script = new URL("../../../examples/payments/provider.ts", import.meta.url);
  const worker = spawnWorker(script, { env: { PROVIDER_PORT: port, PROVIDER_LEDGER: ledger } });
  const url = String((await worker.ready()).url);
  return { worker, port: new URL(url).port, ledger };
}

async function misbehave({ port }: Provider, mode: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  await fetch(`http://127.0.0.1:${port}/mode`, { method: "PUT", headers, body: JSON.stringify({ mode }) });
}

const start = ({ port }: Provider, env: Record<string, string> = {}) =>
  startRecipe("uncertain-outcome/service.ts", {
    DATABASE_URL: database.url,
    PROVIDER_URL: `http://127.0.0.1:${port}`,
    WEBHOOK_SECRET: secret,
    LEASE_MS: "1000",
    POLL_MS: "300",
    ...env,
  });

const pay = (service: Recipe, key: string) => service.post("/payments", key, { amount: 500 });

/** The card is charged, and the service is killed before it can know. Returns what the provider has written down. */
async function chargeAndDie(provider: Provider, key: string) {
  await misbehave(provider, "time-out-after-charging");
  const service = await start(provider);
  const lost = pay(service, key).catch((error: Error) => error);
  const charge = await provider.worker.line(({ signal }) => signal === "charged");
  await service.worker.kill("SIGKILL");
  expect(await lost).toBeInstanceOf(Error);
  await misbehave(provider, "ok");
  return { id: String(charge.id), reference: String(charge.reference), amount: 500 };
}

/** Until its lease has ended a retry gets the reply that it runs; then that its outcome is unknown. */
async function untilUnknown(service: Recipe, key: string): Promise<void> {
  await until(async () => (await pay(service, key)).body.includes("outcome-unknown"));
}

/** Once it is settled, whoever comes first goes on with it: the retry, or the worker. */
async function untilDone(service: Recipe, key: string, charge: string): Promise<void> {
  const answer = await until(async () => {
    const retry = await pay(service, key);
    return retry.status === 201 ? retry : undefined;
  });
  expect(JSON.parse(answer?.body ?? "")).toMatchObject({ amount: 500, charge });
  expect(await pay(service, key)).toMatchObject({ status: 201, replayed: true, body: answer?.body });
}

const charges = ({ ledger }: Provider) => readLedger(ledger).filter(({ did }) => did === "charge").length;

test("the provider's webhook settles what nobody else can find out", async () => {
  const provider = await startProvider();
  const { id, reference, amount } = await chargeAndDie(provider, "webhook-1");
  await provider.worker.kill("SIGKILL"); // it cannot be asked
  const service = await start(provider);
  await untilUnknown(service, "webhook-1");
  const body = JSON.stringify({ reference, charge: { id, amount } });
  const hook = (signature: string) =>
    service.post("/webhooks/provider", null, body, { "x-signature": signature });
  expect((await hook("00")).status).toBe(401);
  const signature = createHmac("sha256", secret).update(body).digest("hex");
  expect((await hook(signature)).status).toBe(204);
  await untilDone(service, "webhook-1", id);
  expect((await hook(signature)).status).toBe(204);
  expect(service.worker.lines.map(({ text }) => text)).toContain(`webhook ${reference} settled`);
  expect(charges(provider)).toBe(1);
});

test("asking the provider settles it, and a retry never charges", async () => {
  const provider = await startProvider();
  const { id } = await chargeAndDie(provider, "lookup-1");
  const service = await start(provider);
  await untilDone(service, "lookup-1", id);
  await service.worker.line(({ text }) => String(text).endsWith("found-downstream"));
  expect(charges(provider)).toBe(1);
});

test("a provider that does not answer any more: a dead letter, and the operator's command", async () => {
  const provider = await startProvider();
  const { id, reference, amount } = await chargeAndDie(provider, "operator-1");
  await provider.worker.kill("SIGKILL");
  const service = await start(provider, { TRIES_MAX: "1" });
  await until(() => service.worker.stderr().includes("a person has to look"));
  expect((await pay(service, "operator-1")).body).toContain("outcome-unknown");

  const latchkey = async (...args: string[]) => {
    const script = fileURLToPath(new URL("../../../packages/latchkey/src/cli/main.ts", import.meta.url));
    const command = spawnWorker(script, { args, env: { DATABASE_URL: database.url } });
    const exit = await command.exited;
    return { ...exit, text: command.lines.map((line) => line.text ?? JSON.stringify(line)).join("\n") };
  };
  expect((await latchkey("list", "--state", "unknown")).text).toContain("operator-1");
  expect((await latchkey("inspect", "acme", "payments.create", "operator-1")).text).toContain(reference);
  const result = JSON.stringify({ id, amount });
  const settle = ["settle", reference, "--call", "charged", "--result", result];
  const settled = await latchkey(...settle, "--operator", "ada", "--reason", "it is on the provider's page");
  expect(settled.code, settled.text).toBe(0);
  await untilDone(service, "operator-1", id);
  expect(charges(provider)).toBe(1);
});

test("declined is an answer; what never arrived may be sent again", async () => {
  const provider = await startProvider();
  const service = await start(provider);
  await misbehave(provider, "refuse");
  const declined = await pay(service, "declined-1");
  expect(declined.status).toBe(402);
  await misbehave(provider, "down");
  expect((await pay(service, "down-1")).status).toBeGreaterThanOrEqual(500);
  await misbehave(provider, "ok");
  expect(await pay(service, "declined-1")).toMatchObject({
    status: 402,
    replayed: true,
    body: declined.body,
  });
  await until(async () => (await pay(service, "down-1")).status === 201);
  expect(charges(provider)).toBe(1);
  const { rows } = await pool.query("select count(*)::int as count from payments where state = 'begun'");
  expect(rows[0].count).toBe(0);
});
