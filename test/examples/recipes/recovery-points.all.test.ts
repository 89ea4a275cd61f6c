/** The recipe "Stripe's shape": a service that is killed between two recovery points is gone on with after the last one. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { expect, test } from "vitest";
import { readLedger } from "../../../examples/payments/provider-ledger.ts";
import { readCodeBlocks } from "../../../scripts/support/markdown.ts";
import { spawnWorker } from "../../support/processes.ts";
import { freshDatabase } from "../../support/shared-postgres.ts";
import { until } from "../../support/until.ts";
import { type Answer, lockTable, recipeFolder, startRecipe } from "./recipe.ts";

const ride = { origin: "Home", target: "The moon" };

test("killed after the charge, the retry goes on after the last recovery point", async () => {
  const database = await freshDatabase();
  const pool = new pg.Pool({ connectionString: database.url });
  const count = async (table: string) =>
    (await pool.query(`select count(*)::int as count from ${table}`)).rows[0].count;
  const ledger = join(recipeFolder(), "provider.jsonl");
  const provider = spawnWorker(new URL("../../../examples/payments/provider.ts", import.meta.url), {
    env: { PROVIDER_PORT: "0", PROVIDER_LEDGER: ledger },
  });
  const url = String((await provider.ready()).url);
  const mode = (name: string) =>
    fetch(`${url}/mode`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ mode: name }),
    });
  const env = { DATABASE_URL: database.url, PROVIDER_URL: url, LEASE_MS: "2000" };
  const first = await startRecipe("recovery-points/service.ts", env);
  let service = await startRecipe("recovery-points/service.ts", env);

  await mode("time-out-after-charging");
  const lost = first.post("/rides", "ride-1", ride).catch((error: Error) => error);
  await provider.line(({ signal }) => signal === "charged");
  const running = await service.post("/rides", "ride-1", ride);
  expect(running).toMatchObject({ status: 409, replayed: false });
  expect(JSON.parse(running.body)).toMatchObject({ error: { type: "invalid_request_error" } });
  await first.worker.kill("SIGKILL");
  expect(await lost).toBeInstanceOf(Error);
  await mode("ok");
  const steps = await pool.query("select name, state from latchkey.steps order by position");
  expect(steps.rows).toEqual([
    { name: "ride_created", state: "finished" },
    { name: "charge_created", state: "started" },
  ]);

  const done = await until<Answer | undefined>(async () => {
    const answer = await service.post("/rides", "ride-1", ride);
    return answer.status === 201 ? answer : undefined;
  });
  expect(done?.replayed).toBe(false);
  await service.worker.line(({ text }) => text === "goes on after ride_created");
  await service.worker.line(({ text }) => text === "already done ride_created");
  expect(await service.post("/rides", "ride-1", ride)).toMatchObject({
    status: 201,
    replayed: true,
    body: done?.body,
  });

  // Misuse in Stripe's form.
  const misuse = await service.post("/rides", "ride-1", { ...ride, target: "Mars" });
  expect(misuse.status).toBe(400);
  expect(JSON.parse(misuse.body)).toMatchObject({ error: { type: "idempotency_error" } });
  expect((await service.post("/rides", null, ride)).status).toBe(400);

  expect(readLedger(ledger).filter(({ did }) => did === "charge")).toHaveLength(1);
  await until(async () => (await count("receipts")) === 1);
  expect([await count("rides"), await count("audit_records")]).toEqual([1, 1]);

  // The answers of old: a declined card is kept, and no receipt goes out for it.
  await mode("refuse");
  const declined = await service.post("/rides", "ride-2", ride);
  expect(declined.status).toBe(402);
  await mode("ok");
  expect(await service.post("/rides", "ride-2", ride)).toMatchObject({
    status: 402,
    replayed: true,
    body: declined.body,
  });

  // Nobody goes on with a dead attempt whose client does not come back.
  const free = await lockTable(database.url, "audit_records");
  void service.post("/rides", "ride-3", ride).catch(() => {});
  await until(async () => (await count("latchkey.leases")) === 1);
  await service.worker.kill("SIGKILL");
  await free();
  service = await startRecipe("recovery-points/service.ts", env);
  const leases = "latchkey.leases where locked_until < clock_timestamp()";
  await until(async () => (await count(leases)) === 1);
  expect(await service.post("/rides", "ride-3", ride)).toMatchObject({ status: 201, replayed: false });
  expect(await count("rides where charge is not null")).toBe(2);

  // The page's statement in place of ON DELETE SET NULL.
  const page = readFileSync(new URL("../../../docs/recipes/recovery-points.md", import.meta.url), "utf8");
  const statement = readCodeBlocks(page).find(({ language }) => language === "sql")?.text ?? "";
  await pool.query(statement);
  expect(await count("rides where idempotency_record is null")).toBe(0);
  await pool.query("delete from latchkey.records where key = 'ride-1'");
  await pool.query(statement);
  expect(await count("rides where idempotency_record is null")).toBe(1);
  await service.worker.stop();
  await provider.stop();
  await pool.end();
  await database.drop();
});
