/**
 * A Cloudflare worker before Postgres. Its runtime ends every connection with the request that opened it, so each request
 * has a pool of its own, on what Hyperdrive names; Hyperdrive keeps the connections to the database.
 */
import { createLatchkey } from "latchkey";
import { fetchProtect, fetchServe, fetchStatus } from "latchkey/fetch";
import { type PgTx, type PostgresStoreOptions, postgresStore } from "latchkey/postgres";
import pg from "pg";

interface Environment {
  readonly HYPERDRIVE: { readonly connectionString: string };
}

interface Context {
  waitUntil(work: Promise<unknown>): void;
}

/** Hyperdrive gives a connection for one transaction at a time. */
const behindPooler = { notify: false, namedStatements: false } as const;

const read = async (request: Request) => (await request.json()) as { readonly amount: number };

function serviceOn(pool: pg.Pool, settings: Omit<PostgresStoreOptions<pg.Pool>, "pool">) {
  const store = postgresStore({ pool, ...settings });
  const latchkey = createLatchkey<PgTx<pg.Pool>>({ store });
  const options = { tenant: () => "tenant", statusPath: "/status" };
  const order = latchkey.operation("orders");
  const orders = fetchProtect(latchkey, options)(order, async (_request, { tx, attempt }) => {
    const { rows } = await tx.query("insert into orders (name) values ($1) returning id", [attempt.key]);
    return Response.json({ order: rows[0].id }, { status: 201 });
  });
  const receipt = latchkey.effect("receipt", {
    deduplication: "provider",
    dedupeWindowMs: 60_000,
    execute: async (input: { readonly order: number }) => ({ sent: input.order }),
  });
  const pay = latchkey.operation("payments", {
    execution: "lease",
    leaseEnd: "resume",
    version: "1",
    async run(input: { readonly amount: number }, attempt) {
      const id = await attempt.phase("placed", async (tx) => {
        const { rows } = await tx.query("insert into orders (name) values ('paid') returning id");
        return Number(rows[0].id);
      });
      const { sent } = await attempt.call("receipt", receipt, { order: id });
      return { status: 201, body: { amount: input.amount, same: sent === id } };
    },
  });
  const payments = fetchServe(latchkey, options)(pay, read);
  const report = latchkey.operation("reports", {
    execution: "deferred",
    version: "1",
    run: async () => ({ status: 200, body: { done: true } }),
  });
  const reports = fetchServe(latchkey, options)(report, () => null);
  return { store, latchkey, orders, payments, reports, status: fetchStatus(latchkey, options) };
}

// biome-ignore lint/style/noDefaultExport: the runtime takes the default export
export default {
  async fetch(request: Request, { HYPERDRIVE }: Environment, context: Context): Promise<Response> {
    const pool = new pg.Pool({ connectionString: HYPERDRIVE.connectionString, max: 3 });
    const { store, latchkey, ...routes } = serviceOn(pool, behindPooler);
    try {
      const { pathname } = new URL(request.url);
      if (pathname === "/orders") return await routes.orders(request);
      if (pathname === "/payments") return await routes.payments(request);
      if (pathname === "/reports") return await routes.reports(request);
      if (pathname === "/work") return Response.json(await latchkey.work({ untilMs: 10_000 }));
      return await routes.status(request, pathname.slice("/status/".length));
    } finally {
      context.waitUntil(store.close().then(() => pool.end()));
    }
  },
};
