/**
 * A receiver of Stripe's webhooks: an event is delivered twice, once while it runs, and once with a forged signature.
 * DATABASE_URL=postgres://… npm run stripe -w latchkey-example-webhooks
 */
import type { AddressInfo } from "node:net";
import express from "express";
import { createLatchkey } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { expressWebhook, stripeWebhooks, webhookReceiver } from "latchkey/webhooks";
import pg from "pg";
import Stripe from "stripe";

const connectionString = process.env.DATABASE_URL;
if (connectionString === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 3_000 });
pool.on("error", console.error);

const secret = process.env.STRIPE_WEBHOOK_SECRET ?? "whsec_of_this_example";
const stripe = new Stripe(process.env.STRIPE_API_KEY ?? "sk_test_not_used_for_webhooks");
const day = 24 * 60 * 60 * 1000;

const latchkey = createLatchkey({ store: postgresStore({ pool }) });
// Stripe sends an event again for three days.
const receiveEvent = latchkey.operation("stripe.events", { retentionMs: 4 * day });
const receiver = webhookReceiver(
  latchkey,
  receiveEvent,
  {
    source: stripeWebhooks({ stripe, secret }),
    tenant: (event) => event.account ?? "platform",
    onRefused: ({ reason }) => console.log(`refused: ${reason}`),
  },
  async ({ event, tx }) => {
    if (event.type !== "charge.succeeded") {
      await tx.query("insert into ignored (type) values ($1)", [event.type]);
      return;
    }
    const { id, amount } = event.data.object;
    await tx.query("insert into payments (charge, cents) values ($1, $2)", [id, amount]);
  },
);

const app = express();
// Before body parsers: the signature is over the bytes.
app.post("/webhooks/stripe", expressWebhook(receiver));
app.use(express.json());

await migratePostgres(pool);
await pool.query("create table if not exists payments (charge text, cents int)");
await pool.query("create table if not exists ignored (type text)");
const server = await new Promise<ReturnType<typeof app.listen>>((resolve) => {
  const listening = app.listen(0, "127.0.0.1", () => resolve(listening));
});
const { port } = server.address() as AddressInfo;

/** Stands in for Stripe: the signature is made by Stripe's own client. */
async function deliver(what: string, signedWith = secret): Promise<void> {
  const charge = { id: "ch_1", object: "charge", amount: 500 };
  const payload = JSON.stringify({
    id: "evt_1",
    object: "event",
    type: "charge.succeeded",
    data: { object: charge },
  });
  const signature = stripe.webhooks.generateTestHeaderString({ payload, secret: signedWith });
  const { status, headers } = await fetch(`http://127.0.0.1:${port}/webhooks/stripe`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Stripe-Signature": signature },
    body: payload,
  });
  console.log(`${what}: ${status}, repeated ${headers.get("idempotent-replayed") ?? false}`);
}
await deliver("forged", "whsec_of_somebody_else");
await deliver("first");
await deliver("again");
const { rows } = await pool.query<{ count: string }>("select count(*) from payments");
console.log(`payments: ${rows[0]?.count}`);

await new Promise((resolve) => server.close(resolve));
await latchkey.close();
await pool.end();
