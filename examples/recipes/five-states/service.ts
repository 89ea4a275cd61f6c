/**
 * Postgres only: a request is stored and answered with 202, a worker runs it, and a status resource returns the result.
 * DATABASE_URL=postgres://… node service.ts; with WORKER=off a process answers and runs nothing.
 */
import type { AddressInfo } from "node:net";
import express, { type Request } from "express";
import { createLatchkey } from "latchkey";
import { expressServe, expressStatus, keepRawBody } from "latchkey/express";
import { createMetrics } from "latchkey/metrics";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";

const { DATABASE_URL: connectionString, PORT = "3000", WORKER, RETENTION_SECONDS = "86400" } = process.env;
const pool = new pg.Pool({ ...(connectionString && { connectionString }), connectionTimeoutMillis: 3_000 });
pool.on("error", (error) => console.error(`Postgres: ${error.message}`));

await migratePostgres(pool); // in production: npx latchkey migrate, before the processes start
await pool.query(`
  create table if not exists sales (sold_on date not null, amount integer not null);
  create table if not exists reports (
    id integer generated always as identity primary key, account text not null, month text not null, total integer not null)`);

const metrics = createMetrics();
const latchkey = createLatchkey({
  store: postgresStore({ pool }),
  onEvent(event) {
    metrics.onEvent(event);
    // Keys that were taken over from a worker that died, or that are retried.
    if (event.type === "taken_over") console.log(`taken over ${event.recordId}: was ${event.from}`);
  },
});

interface Report {
  readonly account: string;
  readonly month: string;
}

const retentionMs = Number(RETENTION_SECONDS) * 1_000;
const createReport = latchkey.operation("reports.create", {
  execution: "deferred",
  version: "1",
  pendingLimitMs: 60 * 60 * 1_000, // not begun within an hour: 408
  leaseMs: 3_000, // a worker that is silent for so long is taken over from
  attemptsMax: 3, // then the answer is a stored 500
  retentionMs, // from the end on
  forgetAfterMs: 2 * retentionMs, // in between 410, afterwards 404
  run: async ({ account, month }: Report, attempt) =>
    attempt.finish("reported", async (tx) => {
      const { rows } = await tx.query(
        `insert into reports (account, month, total)
         select $1, $2, coalesce(sum(amount), 0) from sales where date_trunc('month', sold_on) = to_date($2, 'YYYY-MM')
         returning id, month, total`,
        [account, month],
      );
      return { status: 201, headers: { Location: `/reports/${rows[0].id}` }, body: rows[0] };
    }),
});

/** A placeholder for your authentication. */
const accounts = new Map([["acme-token", "acme"]]);
const accountOf = (req: Request) => accounts.get(req.get("authorization")?.replace("Bearer ", "") ?? "");
const options = { tenant: accountOf, statusPath: "/operations" };
const serve = expressServe(latchkey, options);

const app = express().use(express.json({ verify: keepRawBody }));
app.get("/metrics", (_req, res) => {
  res.type("text/plain; version=0.0.4").send(metrics.text());
});
app.use((req, res, next) => {
  if (accountOf(req) === undefined) res.status(401).json({ error: "who are you?" });
  else next();
});
app.post(
  "/reports",
  serve(createReport, (req) => ({ account: accountOf(req) ?? "", month: String(req.body.month) })),
);
app.get("/operations/:id", expressStatus(latchkey, options));

// The sweeper looks every second for workers that have died, the cleaner every minute for expired records.
if (WORKER !== "off") {
  latchkey.startWorker({ leaseRescuer: { intervalMs: 1_000 }, recordCleaner: { intervalMs: 60_000 } });
}
const server = app.listen(Number(PORT), () => {
  console.log(`listening on port ${(server.address() as AddressInfo).port}`);
});

process.once("SIGTERM", async () => {
  server.close();
  server.closeIdleConnections();
  await latchkey.close();
  await pool.end();
});
