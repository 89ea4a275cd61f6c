/** What `npm run trace` follows through the library: Express 5 and `pg` on a private Postgres. */
import { randomUUID } from "node:crypto";
import express, { type Request } from "express";
import { createLatchkey, effectDispatcher, type Latchkey } from "latchkey";
import { expressProtect, keepRawBody } from "latchkey/express";
import { migratePostgres, type PgTx, postgresStore } from "latchkey/postgres";
import pg from "pg";
import { type Listening, listen } from "../../test/support/listen.ts";
import { startPostgres } from "../../test/support/private-postgres.ts";
import { until } from "../../test/support/until.ts";

/** The most files and functions that a job may enter: a little more than it does. Decision 041 says what a higher limit needs. */
export const limits = {
  first: { files: 72, functions: 440 },
  replay: { files: 57, functions: 262 },
  lease: { files: 77, functions: 430 },
  delivery: { files: 38, functions: 210 },
} as const;

export type JobName = keyof typeof limits;

export const jobNames = Object.keys(limits) as readonly JobName[];

export interface TracedJobs {
  /** Prepares the work, then returns the part that is traced. Each part does its work once. */
  prepare(job: JobName): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

/** A service in this process, with its clients. The server it starts ends with `releaseAll`. */
export async function startJobs(): Promise<TracedJobs> {
  const { url } = await startPostgres();
  const pool = new pg.Pool({ connectionString: url });
  await pool.query("create table orders (id integer generated always as identity, item text not null)");
  await migratePostgres(pool);
  const store = postgresStore({ pool });
  const latchkey = createLatchkey({ store, onEvent: report });
  const listening = await listen(serviceOf(latchkey));
  return {
    prepare: prepareOn(latchkey, listening, pool),
    async close() {
      await listening.close();
      await latchkey.close();
      await pool.end();
    },
  };
}

function serviceOf(latchkey: Latchkey<PgTx<pg.Pool>>): express.Express {
  const protect = expressProtect(latchkey, { tenant: (req: Request) => req.get("x-tenant") });
  const inTransaction = latchkey.operation("orders.create");
  const underLease = latchkey.operation("orders.send", { execution: "lease" });
  const app = express().use(express.json({ verify: keepRawBody }));
  app.post(
    "/transaction",
    protect(inTransaction, async (req, res, { tx }) => {
      const insert = "insert into orders (item) values ($1) returning id";
      const { rows } = await tx.query(insert, [req.body.item]);
      res.status(201).json(rows[0]);
    }),
  );
  app.post(
    "/lease",
    protect(underLease, (req, res) => {
      res.status(201).json({ sent: req.body.item });
    }),
  );
  return app;
}

function prepareOn(
  latchkey: Latchkey<PgTx<pg.Pool>>,
  { url }: Listening,
  pool: pg.Pool,
): TracedJobs["prepare"] {
  const enqueue = enqueueOn(latchkey);
  const dispatcher = effectDispatcher(latchkey);
  const order = (path: string, key: string, isReplay = false) => post(`${url}${path}`, key, isReplay);
  return async (job) => {
    const key = randomUUID();
    switch (job) {
      case "first":
        return () => order("/transaction", key);
      case "lease":
        return () => order("/lease", key);
      case "replay":
        await order("/transaction", key);
        return () => order("/transaction", key, true);
      case "delivery":
        await enqueue(key);
        // The NOTIFY that follows the commit is not part of the delivery.
        await until(() => pool.waitingCount === 0 && pool.idleCount === pool.totalCount, { intervalMs: 1 });
        return async () => {
          const { delivered } = await dispatcher.runOnce();
          if (delivered !== 1) throw new Error(`The dispatcher delivered ${delivered} effects instead of 1`);
        };
      default:
        return job satisfies never;
    }
  };
}

function enqueueOn(latchkey: Latchkey<PgTx<pg.Pool>>): (key: string) => Promise<void> {
  const receipt = latchkey.effect<{ item: string }, { sent: string }>("receipts.send", {
    deduplication: "provider",
    dedupeWindowMs: 24 * 60 * 60 * 1_000,
    execute: async ({ item }) => ({ sent: item }),
  });
  const operation = latchkey.operation("orders.note", { writes: "none" });
  return async (key) => {
    const request = { tenant: "trace", key, input: null };
    const { kind } = await latchkey.run(operation, request, async ({ attempt }) => {
      attempt.enqueue(receipt, { item: "book" });
    });
    if (kind !== "executed") throw new Error(`The effect was not enqueued: ${kind}`);
  };
}

async function post(url: string, key: string, isReplay: boolean): Promise<void> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": `"${key}"`, "x-tenant": "trace" },
    body: JSON.stringify({ item: "book" }),
  });
  const text = await response.text();
  const replayed = response.headers.get("idempotent-replayed") === "true";
  if (response.status !== 201 || replayed !== isReplay)
    throw new Error(`${url} answered ${response.status}, replayed: ${replayed}: ${text}`);
}

function report(event: { readonly type: string; readonly error?: unknown }): void {
  if ("error" in event) console.error(event.type, event.error);
}
