/**
 * The uncertain outcome at a payment provider that cannot de-duplicate: what may have happened is never sent again, and is
 * found out by the provider's webhook, by asking, or by a person.
 * DATABASE_URL=postgres://… PROVIDER_URL=http://localhost:4000 WEBHOOK_SECRET=… node service.ts
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { AddressInfo } from "node:net";
import express, { type Request } from "express";
import { createLatchkey, EffectRefused, NotExecuted } from "latchkey";
import { expressServe, keepRawBody } from "latchkey/express";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";

const { DATABASE_URL: connectionString, PORT = "3000", WEBHOOK_SECRET = "" } = process.env;
const {
  PROVIDER_URL = "http://localhost:4000",
  LEASE_MS = "30000",
  POLL_MS = "5000",
  TRIES_MAX = "20",
} = process.env;
if (WEBHOOK_SECRET === "")
  throw new TypeError("Set WEBHOOK_SECRET to what the provider signs its webhooks with");
const pool = new pg.Pool({ ...(connectionString && { connectionString }), connectionTimeoutMillis: 3_000 });
pool.on("error", (error) => console.error(`Postgres: ${error.message}`));

await migratePostgres(pool); // in production: npx latchkey migrate, before the processes start
await pool.query(`
  create table if not exists payments (
    id integer generated always as identity primary key, account text not null, amount integer not null,
    state text not null check (state in ('begun', 'charged', 'declined')), charge text)`);

const latchkey = createLatchkey({
  store: postgresStore({ pool }),
  onEvent(event) {
    if (event.type === "became_unknown" || event.type === "lease_rescued")
      console.log("unknown", event.recordId);
    if (event.type === "settled") console.log("settled", event.recordId, "by", event.actor, event.proof);
    if (event.type === "dead_letter") console.error("a person has to look", event.recordId, event.because); // alert
  },
});

interface Charge {
  readonly id: string;
  readonly amount: number;
}

const json = { "content-type": "application/json" };

const charge = latchkey.effect("provider.charge", {
  deduplication: "lookup",
  async execute(input: { amount: number }, { key, signal }) {
    // Our key goes along as the charge's reference, by which it can be found again.
    const body = JSON.stringify({ ...input, reference: key });
    const response = await fetch(`${PROVIDER_URL}/charges`, { method: "POST", headers: json, body, signal });
    if (response.status === 402) throw new EffectRefused({ message: "the card was declined" });
    // Only because this provider promises that its 503 comes before anything happens.
    if (response.status === 503) throw new NotExecuted({ message: "the provider is down" });
    if (!response.ok) throw new Error(`the provider answered ${response.status}`);
    return (await response.json()) as Charge;
  },
  // Null proves nothing: the charge may still be on its way. So it is asked about again, ever later.
  async lookup(_input, { key, signal }) {
    const response = await fetch(`${PROVIDER_URL}/charges?reference=${encodeURIComponent(key)}`, { signal });
    if (!response.ok) throw new Error(`the provider answered ${response.status}`);
    const [found] = (await response.json()) as Charge[];
    return found === undefined ? null : { found };
  },
  // No connection came about, so nothing can have arrived.
  isNotExecuted: (error) =>
    error instanceof Error &&
    error.cause instanceof Error &&
    "code" in error.cause &&
    error.cause.code === "ECONNREFUSED",
  limits: { timeoutMs: 10_000 },
});

const createPayment = latchkey.operation("payments.create", {
  execution: "lease",
  leaseEnd: "reconcile", // a dead attempt is unknown, and is not gone on with before that is found out
  leaseMs: Number(LEASE_MS),
  retentionMs: 30 * 24 * 60 * 60 * 1_000,
  version: "1",
  async run({ account, amount }: { account: string; amount: number }, attempt) {
    const id = await attempt.phase("begun", async (tx) => {
      const insert = "insert into payments (account, amount, state) values ($1, $2, 'begun') returning id";
      const { rows } = await tx.query(insert, [account, amount]);
      return Number(rows[0].id);
    });
    try {
      const done = await attempt.call("charged", charge, { amount });
      return await attempt.finish("recorded", async (tx) => {
        await tx.query("update payments set state = 'charged', charge = $2 where id = $1", [id, done.id]);
        return { status: 201, body: { id, amount, charge: done.id } };
      });
    } catch (error) {
      if (!(error instanceof EffectRefused)) throw error; // in doubt: Latchkey takes it from here
      return await attempt.finish("declined", async (tx) => {
        await tx.query("update payments set state = 'declined' where id = $1", [id]);
        return { status: 402, body: { id, error: "the card was declined" } };
      });
    }
  },
});

/** Stands for your authentication. */
const accounts = new Map([["acme-token", "acme"]]);
const accountOf = (req: Request) => accounts.get(req.get("authorization")?.replace("Bearer ", "") ?? "");
const serve = expressServe(latchkey, { tenant: accountOf });

const app = express();

/** The provider says what became of a charge: `{ reference, charge }`, signed. */
app.post("/webhooks/provider", express.raw({ type: "application/json" }), async (req, res) => {
  const expected = createHmac("sha256", WEBHOOK_SECRET).update(req.body).digest();
  const given = Buffer.from(req.get("x-signature") ?? "", "hex");
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
    res.status(401).end();
    return;
  }
  const { reference, charge: happened } = JSON.parse(req.body.toString("utf8"));
  const settled = await latchkey.settle({ downstreamKey: reference }, { result: happened });
  console.log("webhook", reference, settled.kind);
  res.status(204).end(); // whatever came of it: a webhook that gets no 2xx comes for ever
});

app.use(express.json({ verify: keepRawBody }));
app.use((req, res, next) => {
  if (accountOf(req) === undefined) res.status(401).json({ error: "who are you?" });
  else next();
});
app.post(
  "/payments",
  (req, res, next) => {
    if (Number.isSafeInteger(req.body?.amount) && req.body.amount > 0) next();
    else res.status(400).json({ error: "amount must be a whole number above 0" });
  },
  serve(createPayment, (req) => ({ account: accountOf(req) ?? "", amount: Number(req.body.amount) })),
);

latchkey.startWorker({ outcomeReconciler: { intervalMs: Number(POLL_MS), triesMax: Number(TRIES_MAX) } });
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
