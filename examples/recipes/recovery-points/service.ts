/**
 * Stripe's shape: a ride is booked in steps, each step is a recovery point, and a retry goes on after the last one.
 * DATABASE_URL=postgres://… PROVIDER_URL=http://localhost:4000 node service.ts
 */
import type { AddressInfo } from "node:net";
import express, { type Request } from "express";
import { createLatchkey, EffectRefused, NotExecuted, stripe } from "latchkey";
import { expressServe, keepRawBody } from "latchkey/express";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";

const { DATABASE_URL: connectionString, PORT = "3000", LEASE_MS = "90000" } = process.env;
const { PROVIDER_URL = "http://localhost:4000" } = process.env;
const pool = new pg.Pool({ ...(connectionString && { connectionString }), connectionTimeoutMillis: 3_000 });
pool.on("error", (error) => console.error(`Postgres: ${error.message}`));

await migratePostgres(pool); // in production: npx latchkey migrate, before the processes start
await pool.query(`
  create table if not exists rides (
    id integer generated always as identity primary key, account text not null, origin text not null,
    target text not null, charge text,
    -- The id of the key's record: a plain value, see the page.
    idempotency_record uuid unique);
  create table if not exists audit_records (
    id integer generated always as identity primary key, account text not null, action text not null,
    ride_id integer not null references rides, request jsonb not null, created_at timestamptz not null default now());
  create table if not exists receipts (ride_id integer primary key references rides)`);

const latchkey = createLatchkey({
  store: postgresStore({ pool }),
  policy: stripe,
  onEvent(event) {
    if (event.type === "attempt_resumed") console.log("goes on after", event.recoveryPoint);
    if (event.type === "step_resumed") console.log("already done", event.step);
  },
});

interface Charge {
  readonly id: string;
}

/** The one foreign change. This provider remembers our key for a day, so sending it again is safe. */
const charge = latchkey.effect("provider.charge", {
  deduplication: "provider",
  dedupeWindowMs: 24 * 60 * 60 * 1_000,
  async execute(input: { amount: number }, { key, signal }) {
    const headers = { "content-type": "application/json", "idempotency-key": key };
    const body = JSON.stringify(input);
    const response = await fetch(`${PROVIDER_URL}/charges`, { method: "POST", headers, body, signal });
    if (response.status === 402) throw new EffectRefused({ message: "the card was declined" });
    if (response.status === 503) throw new NotExecuted({ message: "the provider is down" });
    if (!response.ok) throw new Error(`the provider answered ${response.status}`);
    return (await response.json()) as Charge;
  },
});

/** After the answer: a worker sends it. Here it stays in this database, with the finish of its delivery. */
const receipt = latchkey.effect("receipt.send", {
  deduplication: "provider",
  dedupeWindowMs: 24 * 60 * 60 * 1_000,
  execute: async (input: { ride: number }, { key }) => ({ ...input, message: key }),
  async onDelivered({ result }, tx: pg.ClientBase) {
    await tx.query("insert into receipts (ride_id) values ($1) on conflict do nothing", [result.ride]);
  },
});

interface Ride {
  readonly account: string;
  readonly origin: string;
  readonly target: string;
}

const createRide = latchkey.operation("rides.create", {
  execution: "lease",
  leaseEnd: "resume",
  leaseMs: Number(LEASE_MS), // after 90 seconds of silence the next retry takes it over
  key: "required",
  keyScope: "tenant", // one key, one request in the whole account
  version: "1",
  async run({ account, origin, target }: Ride, attempt) {
    const ride = await attempt.phase("ride_created", async (tx) => {
      const { rows } = await tx.query(
        "insert into rides (account, origin, target, idempotency_record) values ($1, $2, $3, $4) returning id",
        [account, origin, target, attempt.id],
      );
      const id = Number(rows[0].id);
      await tx.query(
        "insert into audit_records (account, action, ride_id, request) values ($1, 'rides.create', $2, $3)",
        [account, id, JSON.stringify({ origin, target })],
      );
      return id;
    });
    try {
      const { id } = await attempt.call("charge_created", charge, { amount: 2_000 });
      return await attempt.finish("finished", async (tx) => {
        await tx.query("update rides set charge = $2 where id = $1", [ride, id]);
        attempt.enqueue(receipt, { ride });
        return { status: 201, body: { ride, charge: id } };
      });
    } catch (error) {
      if (!(error instanceof EffectRefused)) throw error;
      return { status: 402, body: { error: { type: "card_error", message: "Your card was declined." } } };
    }
  },
});

/** A placeholder for your authentication. */
const accounts = new Map([["acme-token", "acme"]]);
const accountOf = (req: Request) => accounts.get(req.get("authorization")?.replace("Bearer ", "") ?? "");
const serve = expressServe(latchkey, { tenant: accountOf });

const app = express().use(express.json({ verify: keepRawBody }));
app.use((req, res, next) => {
  if (accountOf(req) === undefined) res.status(401).json({ error: { type: "authentication_error" } });
  else next();
});
app.post(
  "/rides",
  serve(createRide, (req) => ({
    account: accountOf(req) ?? "",
    origin: String(req.body.origin),
    target: String(req.body.target),
  })),
);

// Without the rescuer nothing goes on by itself: a dead attempt waits for its client's retry, as at Stripe.
latchkey.startWorker({ leaseRescuer: false });
const server = app.listen(Number(PORT), () => {
  const { port } = server.address() as AddressInfo;
  console.log(`listening on port ${port}, process ${process.pid}`);
});

process.once("SIGTERM", async () => {
  server.close();
  server.closeIdleConnections();
  await latchkey.close();
  await pool.end();
});
