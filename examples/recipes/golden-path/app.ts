/** The secure golden path: who may call, what a key may be, what is stored, and what is sent after the commit. */
import express, { type Request } from "express";
import { createLatchkey, type HttpOptions, type LatchkeyEvent, NotExecuted } from "latchkey";
import { encryptionCodec } from "latchkey/encryption";
import { expressProtect, keepRawBody } from "latchkey/express";
import { createMetrics } from "latchkey/metrics";
import { postgresStore } from "latchkey/postgres";
import type pg from "pg";
import { RateLimiterMemory } from "rate-limiter-flexible";

const minute = 60_000;
const day = 24 * 60 * minute;

export const tables = `
  create table if not exists payments (
    id integer generated always as identity primary key, account text not null, amount integer not null,
    charge text unique)`;

export interface Charge {
  readonly id: string;
  readonly amount: number;
  /** Our key, as the provider has it. */
  readonly reference: string;
}

/** What your authentication knows about a caller. The account is the tenant, the user the principal; a token is neither. */
const callers = new Map([
  ["acme-token", { account: "acme", user: "ann" }],
  ["acme-other-token", { account: "acme", user: "bob" }],
  ["umbrella-token", { account: "umbrella", user: "carol" }],
]);
const callerOf = (req: Request) => callers.get(req.get("authorization")?.replace("Bearer ", "") ?? "");

/** Whose request it is, what a key may be, and what makes two requests the same. */
const rules: HttpOptions<Request> = {
  tenant: (req) => callerOf(req)?.account,
  principal: (req) => callerOf(req)?.user,
  key: { minLength: 16, refusePersonal: true },
  fingerprint: { headers: ["x-api-version"] }, // beside method, path, query and the canonical body
  requestAge: { maxMs: day },
  expiresHeader: "Idempotency-Expires",
};

export interface Secrets {
  /** At least 32 characters; keys are stored as an HMAC under it. */
  readonly keys: string;
  /** 32 bytes in base64; answers and effects are stored encrypted. */
  readonly answers: string;
}

export function createApp(pool: pg.Pool, providerUrl: string, secrets: Secrets) {
  const metrics = createMetrics();
  const latchkey = createLatchkey({
    store: postgresStore({ pool }), // if the store is unavailable, the answer is 503, and nothing runs
    keySecret: secrets.keys,
    logSecret: secrets.keys, // the same key has the same hash in all processes' logs
    codec: encryptionCodec({ keys: { first: Buffer.from(secrets.answers, "base64") }, current: "first" }),
    limits: {
      lookups: new RateLimiterMemory({ points: 600, duration: 60 }),
      newKeys: new RateLimiterMemory({ points: 60, duration: 60 }),
      activeKeys: 100_000, // no tenant fills the table, however slowly
    },
    onEvent(event) {
      metrics.onEvent(event);
      alertOn(event);
    },
  });

  /** Sent by a worker, under a key that is the same for every worker and every attempt. */
  const charge = latchkey.effect("provider.charge", {
    deduplication: "provider",
    dedupeWindowMs: day,
    delivery: { attemptsMax: 10, keepMs: 3 * day }, // kept for the comparison with the provider's ledger
    async execute(input: { payment: number; amount: number }, { key, signal }) {
      const headers = { "content-type": "application/json", "idempotency-key": key };
      const body = JSON.stringify({ amount: input.amount });
      const response = await fetch(`${providerUrl}/charges`, { method: "POST", headers, body, signal });
      if (response.status === 503) throw new NotExecuted({ message: "the provider is down" });
      if (!response.ok) throw new Error(`the provider answered ${response.status}`);
      return (await response.json()) as Charge;
    },
    // The provider's id and the end of the delivery are one commit.
    async onDelivered({ input, result }, tx: pg.ClientBase) {
      await tx.query("update payments set charge = $2 where id = $1", [input.payment, result.id]);
    },
  });

  const createPayment = latchkey.operation("payments.create", {
    waitMs: 5_000, // two at once get the same answer
    retentionMs: day,
    forgetAfterMs: 30 * day, // in between a late retry gets 410, and nothing runs
  });

  const protect = expressProtect(latchkey, rules);

  const app = express().use(express.json({ verify: keepRawBody }));
  app.get("/metrics", (_req, res) => {
    res.type("text/plain; version=0.0.4").send(metrics.text());
  });
  app.use((req, res, next) => {
    if (callerOf(req) === undefined) res.status(401).json({ error: "who are you?" });
    else next();
  });

  app.post(
    "/payments",
    protect(createPayment, async (req, res, { tx, attempt }) => {
      const { amount } = req.body ?? {};
      if (!Number.isSafeInteger(amount) || amount <= 0) {
        attempt.release(); // nothing happened: the key may be used again
        res.status(400).json({ error: "amount must be a whole number above 0" });
        return;
      }
      const insert = "insert into payments (account, amount) values ($1, $2) returning id";
      const { rows } = await tx.query(insert, [callerOf(req)?.account, amount]);
      const payment = Number(rows[0].id);
      attempt.enqueue(charge, { payment, amount });
      res.status(201).location(`/payments/${payment}`).json({ payment, amount });
    }),
  );

  app.get("/payments/:id", async (req, res) => {
    const own = "select id, amount, charge from payments where id = $1 and account = $2";
    const { rows } = await pool.query(own, [Number(req.params.id), callerOf(req)?.account]);
    if (rows[0] === undefined) res.status(404).end();
    else res.json(rows[0]);
  });

  return { app, latchkey, charge };
}

/** The events that alert a person. The rest are counted in /metrics. */
function alertOn(event: LatchkeyEvent): void {
  switch (event.type) {
    case "effect_dead":
    case "dead_letter":
    case "became_unknown":
    case "circuit_opened":
      console.error(JSON.stringify({ alert: event.type }));
      break;
    case "key_misuse":
      console.warn(JSON.stringify({ security: event.type, tenant: event.tenant, because: event.because }));
      break;
  }
}
