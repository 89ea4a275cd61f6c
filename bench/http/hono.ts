import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { honoProtect } from "latchkey/hono";
import { fixedAnswer, placeOrder, writeOrder } from "./jobs.ts";
import { openOrders, openPool, openReplays } from "./services.ts";
import { type ByHand, type Guard, isByHand, type Job } from "./subject.ts";

const tenant = (c: Context) => c.req.header("x-tenant");

export async function startHono(job: Job, guard: Guard): Promise<RequestListener> {
  const app = new Hono();
  if (guard === "none") handlePlainly(app);
  else if (isByHand(guard)) await handleByHand(app, job, guard);
  else if (job === "order") protectOrders(app, guard);
  else protectReplays(app, guard);
  return getRequestListener(app.fetch);
}

function handlePlainly(app: Hono): void {
  const pool = openPool();
  app.post("/order", async (c) => c.json(await placeOrder(pool, await c.req.json()), 201));
  app.post("/replay", async (c) => {
    // As every endpoint with a body does, and the framework does not do by itself.
    await c.req.json();
    return c.json(fixedAnswer(), 201);
  });
}

async function handleByHand(app: Hono, job: Job, guard: ByHand): Promise<void> {
  const { answerByHand } = await import("./peers/by-hand.ts");
  const answerOnce = answerByHand(job, guard);
  app.post(`/${job}`, async (c) => {
    const request = { tenant: tenant(c), key: c.req.header("idempotency-key"), body: await c.req.json() };
    const { status, text } = await answerOnce(request);
    return c.body(text, status as 201, { "content-type": "application/json" });
  });
}

function protectOrders(app: Hono, guard: Guard): void {
  const { latchkey, operation } = openOrders(guard);
  const protect = honoProtect(latchkey, { tenant });
  app.post(
    "/order",
    protect(operation, async (c, { tx }) => c.json(await writeOrder(tx, await c.req.json()), 201)),
  );
}

function protectReplays(app: Hono, guard: Guard): void {
  const { latchkey, operation } = openReplays(guard);
  const protect = honoProtect(latchkey, { tenant });
  app.post(
    "/replay",
    protect(operation, async (c) => {
      await c.req.json();
      return c.json(fixedAnswer(), 201);
    }),
  );
}
