/** A service whose requests leave work to workers. The test and the worker process define the same. */
import { createLatchkey, type Effect } from "latchkey";
import { postgresStore } from "latchkey/postgres";
import pg from "pg";

export function ordersService(connectionString: string, sent: (to: string) => void) {
  const pool = new pg.Pool({ connectionString, max: 4, connectionTimeoutMillis: 10_000 });
  pool.on("error", () => {});
  const store = postgresStore({ pool });
  const latchkey = createLatchkey({ store });
  const receipt: Effect<{ to: string }, null> = latchkey.effect("receipt.send", {
    deduplication: "provider",
    dedupeWindowMs: 3_600_000,
    execute: async ({ to }: { to: string }) => {
      sent(to);
      return null;
    },
  });
  const create = latchkey.operation("orders.create", { writes: "none" });
  const report = latchkey.operation("reports.make", {
    execution: "deferred",
    version: "1",
    run: async ({ month }: { month: string }) => ({ status: 200, body: `report of ${month}` }),
  });
  const close = async () => {
    await store.close();
    await pool.end();
  };
  return { latchkey, create, report, receipt, close };
}
