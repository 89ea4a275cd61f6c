/** Handlers that use the pool beside their `tx`: protected work must not starve them, nor they the heartbeats. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { migratePostgres, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { patient } from "../support/patience.ts";
import { type FreshDatabase, freshDatabase } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
  const pool = new pg.Pool({ connectionString: database.url });
  await migratePostgres(pool);
  await pool.query("create table orders (id integer generated always as identity, name text)");
  await pool.end();
});
afterAll(() => database?.drop());

function setUp(max: number) {
  const pool = new pg.Pool({ connectionString: database.url, max });
  // Its limit must outlast the other handlers' time, which scales with the machine.
  const store = postgresStore({ pool, connectTimeoutMs: patient(5_000) });
  const latchkey = createLatchkey({ store });
  const close = async () => {
    await store.close();
    // A connection that was cut off is counted until its socket has closed.
    await until(() => pool.idleCount === pool.totalCount, { what: "every connection is given back" });
    expect(pool.waitingCount).toBe(0);
    await pool.end();
  };
  return { pool, latchkey, close };
}

const request = (name: string, index: number) => ({ tenant: name, key: `k${index}`, input: index });

describe.each([2, 4])("a pool of %i", (max) => {
  test("carries many transactions whose handlers query it too", async () => {
    const { pool, latchkey, close } = setUp(max);
    const order = latchkey.operation("orders.create");
    const results = await Promise.all(
      Array.from({ length: 24 }, (_, index) =>
        latchkey.run(order, request(`tx-${max}`, index), async ({ tx }) => {
          await tx.query("insert into orders (name) values ($1)", [`tx-${max}`]);
          const { rows } = await pool.query(
            "select count(*)::int as count from orders where name = 'nobody'",
          );
          return rows[0];
        }),
      ),
    );
    expect(results.map((result) => result.kind)).toEqual(results.map(() => "executed"));
    const { rows } = await pool.query("select count(*)::int as count from orders where name = $1", [
      `tx-${max}`,
    ]);
    expect(rows[0]?.count).toBe(24);
    await close();
  });

  test("keeps leases alive while every other connection is busy for longer than a lease", async () => {
    const { pool, latchkey, close } = setUp(max);
    const leaseMs = patient(600);
    const mail = latchkey.operation("mail.send", { execution: "lease", leaseMs });
    let aborted = 0;
    const work = (index: number) =>
      latchkey.run(mail, request(`lease-${max}`, index), async ({ attempt }) => {
        attempt.signal.addEventListener("abort", () => aborted++);
        await pool.query("select pg_sleep($1)", [(leaseMs / 1_000) * 0.8]);
        return index;
      });
    const results = await Promise.all([1, 2, 3].map(work));
    expect(results.map((result) => result.kind)).toEqual(["executed", "executed", "executed"]);
    expect(aborted).toBe(0);
    await close();
  });
});
