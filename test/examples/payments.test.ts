/** The example that `npm start` runs: what it prints works as it says, also after a kill at a bad moment. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, describe, expect, test } from "vitest";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { isThorough, sample } from "../support/thorough.ts";
import { until } from "../support/until.ts";

const script = new URL("../../examples/payments/server.ts", import.meta.url);
const folder = mkdtempSync(join(tmpdir(), "latchkey-example-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Shown {
  readonly worker: WorkerProcess;
  readonly url: string;
  /** The bodies of the curl lines, in order: pay, retry, another amount. */
  readonly bodies: readonly string[];
  readonly key: string;
}

async function start(databaseUrl: string): Promise<Shown> {
  const worker = spawnWorker(script, { env: { PORT: "0", DATABASE_URL: databaseUrl }, cwd: folder });
  await worker.line((line) => String(line.text).startsWith("  curl http"), 60_000);
  const text = worker.lines.map((line) => line.text).join("\n");
  const url = /on (http:\S+),/u.exec(text)?.[1] ?? "";
  const bodies = [...text.matchAll(/-d '([^']+)'/gu)].map((match) => match[1] ?? "");
  return { worker, url, bodies, key: /Idempotency-Key: ([^']+)'/u.exec(text)?.[1] ?? "" };
}

const auth = { authorization: "Bearer demo-token" };

async function pay(shown: Shown, key: string, body = "", headers: Record<string, string> = auth) {
  const response = await fetch(`${shown.url}/payments`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json", "idempotency-key": key },
    body,
  });
  const replayed = response.headers.get("idempotent-replayed");
  return { status: response.status, replayed, body: await response.text() };
}

async function charged(shown: Shown): Promise<unknown[]> {
  const response = await fetch(`${shown.url}/payments`, { headers: auth });
  return (await response.json()) as unknown[];
}

async function receipts(shown: Shown): Promise<unknown[]> {
  const response = await fetch(`${shown.url}/receipts`, { headers: auth });
  return (await response.json()) as unknown[];
}

async function askForReport(shown: Shown): Promise<Response> {
  const headers = { ...auth, "idempotency-key": `${shown.key}-report` };
  return fetch(`${shown.url}/reports`, { method: "POST", headers });
}

/** Sends what is printed below the console's address, and reads there what has become of it. */
async function makeTrouble(shown: Shown) {
  await shown.worker.line(({ text }) => String(text).includes("/trouble/dead"));
  const lines = shown.worker.lines.map(({ text }) => String(text));
  const console = new URL(lines.find((line) => line.includes("/console/#token="))?.trim() ?? "");
  for (const line of lines.filter((one) => one.includes("/trouble/"))) {
    const url = /http:\S+/u.exec(line)?.[0] ?? "";
    const key = /Idempotency-Key: ([^']+)'/u.exec(line)?.[1] ?? "";
    await fetch(url, { method: "POST", headers: { ...auth, "idempotency-key": key } });
  }
  const token = new URLSearchParams(console.hash.slice(1)).get("token");
  const headers = { authorization: `Bearer ${token}` };
  return until(async () => {
    const response = await fetch(new URL("api/depths", console), { headers });
    const { overview } = (await response.json()) as {
      overview: Record<"unknown" | "dead", { count: number }>;
    };
    return overview.dead.count > 0 ? overview : null;
  });
}

/** Each meets one of the two; with `npm run test:all` both. */
const runs = (where: string, test: "retries" | "receipts") =>
  isThorough || (where === "Postgres") === (test === "receipts");

test("a database that has a table `payments` of its own, as the README's service makes one", async () => {
  const database = await freshDatabase();
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(
    "create table payments (id integer generated always as identity, amount integer not null)",
  );
  const shown = await start(database.url);
  expect(await pay(shown, shown.key, shown.bodies[0])).toMatchObject({ status: 201 });
  expect((await client.query("select from payments")).rowCount).toBe(0);
  await shown.worker.stop();
  await client.end();
  await database.drop();
});

describe.each(["the embedded database", "Postgres"])("on %s", (where) => {
  test.runIf(runs(where, "retries"))("pay, retry, retry with another amount, kill, retry", async () => {
    const database = where === "Postgres" ? await freshDatabase() : null;
    const shown = await start(database?.url ?? "");
    expect(shown.bodies).toEqual(['{"amount": 500}', '{"amount": 500}', '{"amount": 900}']);
    const first = await pay(shown, shown.key, shown.bodies[0]);
    expect(first).toMatchObject({ status: 201, replayed: null });
    expect(await pay(shown, shown.key, shown.bodies[1])).toEqual({ ...first, replayed: "true" });
    expect(await pay(shown, shown.key, shown.bodies[2])).toMatchObject({ status: 422 });
    for (const wrong of ["", '{"amount": -1}', '{"amount": 5000000000}', '{"amount": 2, "currency": {}}']) {
      expect(await pay(shown, "k", wrong)).toMatchObject({ status: 400, replayed: null });
    }
    expect(await pay(shown, "k", '{"amount": 2}')).toMatchObject({ status: 201, replayed: null });
    expect(await pay(shown, shown.key, shown.bodies[0], { authorization: "Bearer nobody" })).toMatchObject({
      status: 401,
    });
    expect(await charged(shown)).toHaveLength(2);

    await shown.worker.kill("SIGKILL");
    const again = await start(database?.url ?? "");
    expect(await pay(again, shown.key, shown.bodies[0])).toEqual({ ...first, replayed: "true" });
    expect(await charged(again)).toHaveLength(2);
    expect(await again.worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    await database?.drop();
  });

  test.runIf(runs(where, "receipts"))(
    "a receipt for each payment, once; a report, made by the worker",
    async () => {
      const database = where === "Postgres" ? await freshDatabase() : null;
      const shown = await start(database?.url ?? "");
      const before = (await receipts(shown)).length;
      await pay(shown, `${shown.key}-receipt`, shown.bodies[0]);
      await pay(shown, `${shown.key}-receipt`, shown.bodies[0]);
      await until(async () => (await receipts(shown)).length > before, { what: "a receipt is sent" });

      const accepted = await askForReport(shown);
      expect(accepted.status).toBe(202);
      const location = accepted.headers.get("location");
      const answer = await until(
        async () => {
          const response = await fetch(`${shown.url}${location}`, { headers: auth });
          return response.status === 200 ? response : undefined;
        },
        { what: "the report is made" },
      );
      const report = await answer?.text();
      expect(JSON.parse(report ?? "")).toMatchObject([{ currency: "EUR", payments: expect.any(Number) }]);
      const again = await askForReport(shown);
      expect([again.status, await again.text()]).toEqual([200, report]);
      const otherToken = { authorization: "Bearer other-token" };
      expect((await fetch(`${shown.url}${location}`, { headers: otherToken })).status).toBe(404);

      expect(await makeTrouble(shown)).toMatchObject({ unknown: { count: 1 }, dead: { count: 1 } });

      await shown.worker.kill("SIGKILL");
      const later = await start(database?.url ?? "");
      await pay(later, `${shown.key}-receipt`, shown.bodies[0]);
      await pay(later, `${shown.key}-after`, shown.bodies[0]);
      await until(async () => (await receipts(later)).length > before + 1, {
        what: "the next receipt is sent",
      });
      expect(await receipts(later)).toHaveLength(before + 2);
      expect(await later.worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
      await database?.drop();
    },
  );
});

describe("refuses at the start, with exit code 2 and one line that says what to write,", () => {
  const url = "DATABASE_URL must be postgres://user:password@host:port/database (or unset";
  const port = "PORT must be a whole number from 0 to 65535 (got ";
  const refusals: { env: Record<string, string>; says: string }[] = [
    { env: { PORT: "abc" }, says: `${port}abc)` },
    { env: { PORT: "65536" }, says: `${port}65536)` },
    { env: { PORT: "-1" }, says: `${port}-1)` },
    { env: { PORT: "1.5" }, says: `${port}1.5)` },
    {
      env: { PORT: "0", LEASE_MS: "soon" },
      says: "LEASE_MS must be a whole number from 300 to 3600000 (got soon)",
    },
    { env: { PORT: "0", PROVIDER_URL: "localhost:4000" }, says: "PROVIDER_URL must be http://host:port" },
    { env: { PORT: "0", DATABASE_URL: "payments" }, says: url },
    { env: { PORT: "0", DATABASE_URL: "mysql://root:canary@127.0.0.1/payments" }, says: url },
  ];
  test.each(sample(refusals, 2))("$env", async ({ env, says }) => {
    const worker = spawnWorker(script, { env, cwd: folder });
    expect(await worker.exited).toEqual({ code: 2, signal: null });
    expect(worker.lines).toEqual([]);
    expect(worker.stderr()).toMatch(/^[^\n]+\n$/u);
    expect(worker.stderr()).toContain(says);
    expect(worker.stderr()).not.toContain("canary");
  });

  test("a server that is not there: one line and exit code 1", async () => {
    const env = { PORT: "0", DATABASE_URL: "postgres://postgres@127.0.0.1:1/none" };
    const worker = spawnWorker(script, { env, cwd: folder });
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(worker.stderr()).toMatch(/^Cannot open the database: [^\n]*ECONNREFUSED[^\n]*\n$/u);
  });
});
