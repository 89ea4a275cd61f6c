/** The library in Cloudflare's own runtime with `pg` and a real Postgres, by way of a Hyperdrive binding. */
import { Miniflare } from "miniflare";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { migratedDatabase } from "../postgres/harness.ts";
import { onRelease } from "../support/resources.ts";
import { bundleWorker } from "./bundle.ts";

let workerd: Miniflare;
let pool: pg.Pool;

beforeAll(async () => {
  const url = await migratedDatabase();
  // The binding wants one; the test's server asks for none.
  const withPassword = new URL(url);
  withPassword.password = "none";
  pool = new pg.Pool({ connectionString: url, max: 2 });
  onRelease(() => pool.end());
  await pool.query("create table orders (id serial, name text)");
  workerd = new Miniflare({
    modules: true,
    script: await bundleWorker(new URL("./postgres-worker.ts", import.meta.url)),
    compatibilityDate: "2026-07-01",
    compatibilityFlags: ["nodejs_compat"],
    hyperdrives: { HYPERDRIVE: withPassword.href },
  });
  await workerd.ready;
});

afterAll(() => workerd?.dispose());

async function ask(path: string, key?: string) {
  const headers = {
    "Content-Type": "application/json",
    ...(key !== undefined && { "Idempotency-Key": key }),
  };
  const init =
    key === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify({ amount: 5 }) };
  const response = await workerd.dispatchFetch(`http://worker${path}`, init);
  const replayed = response.headers.get("Idempotent-Replayed");
  return { status: response.status, body: await response.json(), replayed, headers: response.headers };
}

const placed = async (name: string) =>
  (await pool.query("select 1 from orders where name = $1", [name])).rows.length;

test("a transaction runs once and replays", async () => {
  const answers = await Promise.all([1, 2, 3].map(() => ask("/orders", "one")));
  expect(answers.filter(({ status, replayed }) => status === 201 && replayed === null)).toHaveLength(1);
  expect(await ask("/orders", "one")).toMatchObject({ status: 201, replayed: "true" });
  expect(await placed("one")).toBe(1);
});

test("a lease with a phase and a call runs once and replays", async () => {
  const body = { amount: 5, same: true };
  expect(await ask("/payments", "one")).toMatchObject({ status: 201, body, replayed: null });
  expect(await ask("/payments", "one")).toMatchObject({ status: 201, body, replayed: "true" });
  expect(await placed("paid")).toBe(1);
});

test("deferred work is done by work(), as a cron trigger calls it", async () => {
  const accepted = await ask("/reports", "one");
  expect(accepted.status).toBe(202);
  const location = String(accepted.headers.get("location"));
  expect(await ask(location)).toMatchObject({ status: 202 });
  expect(await ask("/work")).toMatchObject({
    body: { ended: "nothing_due", inTime: true, pendingWork: { claimed: 1 } },
  });
  expect(await ask(location)).toMatchObject({ status: 200, body: { done: true } });
});
