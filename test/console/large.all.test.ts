/** A million finished records, and the console reads none of its tables from end to end. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { consoleHandler } from "../../packages/latchkey-console/src/index.ts";
import { begin, keyOf } from "../cli/arrange.ts";
import { decideSome, fill, openWorld, token, type World } from "./arrange.ts";

const recordCount = Number(process.env.LATCHKEY_CONSOLE_ROWS ?? 1_000_000);

let world: World;
beforeAll(async () => {
  world = await openWorld();
  await fill(world);
  await decideSome(world);
  await begin(world.place, keyOf("runs", { tenant: "acme" }));
  await world.place.pool.query(`
    insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt,
      token, answer, created_at, finished_at, expires_at, forget_at)
    select 'tenant-' || n % 100, 'payments.charge', 'large-' || n, gen_random_uuid(), 'payments.charge', 'completed', 1,
      '\\x00', 1, gen_random_uuid(), '\\x00', now(), now(), now() + interval '1 day', now() + interval '1 day'
    from generate_series(1, ${recordCount}) n;
    insert into latchkey.audit (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof)
    select gen_random_uuid(), now() - n * interval '1 second', 'tenant-' || n % 100, 'payments.charge', 'large-' || n,
      gen_random_uuid(), 'settle_completed', 'unknown', 'completed', 'owner', 'owner'
    from generate_series(1, ${recordCount / 10}) n;
    analyze latchkey.records, latchkey.audit`);
});
afterAll(() => world?.close());

/** How often each table was read from end to end, and how many rows that were. */
async function walks(): Promise<Readonly<Record<string, number>>> {
  const { pool } = world.place;
  // Each connection has what it did to itself for a while.
  const clients = await Promise.all(Array.from({ length: pool.options.max }, () => pool.connect()));
  for (const client of clients) await client.query("select pg_stat_force_next_flush()");
  for (const client of clients) client.release();
  const { rows } = await pool.query<{ name: string; rows: string }>(
    "select relname as name, seq_tup_read as rows from pg_stat_user_tables where schemaname = 'latchkey'",
  );
  return Object.fromEntries(rows.map((row) => [row.name, Number(row.rows)]));
}

const queues = ["unknown", "retryable", "pending", "in_progress"];
const record = "order-88211";
const reads = [
  "overview",
  "depths",
  ...queues.flatMap((state) => [
    `records?state=${state}`,
    `records?state=${state}&tenant=acme&limit=10`,
    `census?queue=${state}`,
    `census?queue=${state}&tenant=acme`,
  ]),
  "census?queue=dead",
  "dead?kind=effect",
  "dead?kind=message",
  "audit",
  "audit?tenant=acme",
  "audit?tenant=tenant-7&limit=10",
  `inspect?tenant=acme&operation=payments.charge&key=${record}`,
];

test.each(reads)("%s", async (path) => {
  const handler = consoleHandler({ latchkey: world.latchkey, token });
  const ask = () =>
    handler(
      new Request(`http://console.test/api/${path}`, { headers: { authorization: `Bearer ${token}` } }),
    );
  const before = await walks();
  // Node-postgres names statements: from the sixth time on the server may take a plan for any value.
  for (let time = 0; time < 8; time += 1) expect((await ask()).status).toBe(200);
  const after = await walks();
  for (const table of ["records", "audit"]) {
    expect((after[table] ?? 0) - (before[table] ?? 0), `rows of ${table} read in a walk`).toBe(0);
  }
});
