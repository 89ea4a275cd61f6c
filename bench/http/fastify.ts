import type { RequestListener } from "node:http";
import fastify, { type FastifyInstance, type FastifyRequest } from "fastify";
import { fastifyProtect } from "latchkey/fastify";
import { fixedAnswer, type Order, placeOrder, writeOrder } from "./jobs.ts";
import { openOrders, openPool, openReplays } from "./services.ts";
import { type ByHand, type Guard, isByHand, type Job } from "./subject.ts";

const tenant = (request: FastifyRequest) => String(request.headers["x-tenant"]);

export async function startFastify(job: Job, guard: Guard): Promise<RequestListener> {
  const app = fastify();
  if (guard === "none") handlePlainly(app);
  else if (isByHand(guard)) await handleByHand(app, job, guard);
  else if (job === "order") protectOrders(app, guard);
  else protectReplays(app, guard);
  await app.ready();
  return app.routing;
}

function handlePlainly(app: FastifyInstance): void {
  const pool = openPool();
  app.post<{ Body: Order }>("/order", async (request, reply) => {
    reply.code(201);
    return placeOrder(pool, request.body);
  });
  app.post("/replay", async (_request, reply) => {
    reply.code(201);
    return fixedAnswer();
  });
}

async function handleByHand(app: FastifyInstance, job: Job, guard: ByHand): Promise<void> {
  const { answerByHand } = await import("./peers/by-hand.ts");
  const answerOnce = answerByHand(job, guard);
  app.post(`/${job}`, async (request, reply) => {
    const key = request.headers["idempotency-key"] as string | undefined;
    const { status, text } = await answerOnce({ tenant: tenant(request), key, body: request.body });
    return reply.code(status).type("application/json").send(text);
  });
}

function protectOrders(app: FastifyInstance, guard: Guard): void {
  const { latchkey, operation } = openOrders(guard);
  const protect = fastifyProtect(app, latchkey, { tenant });
  app.post(
    "/order",
    protect(operation, async (request: FastifyRequest, reply, { tx }) => {
      reply.code(201);
      return writeOrder(tx, request.body as Order);
    }),
  );
}

function protectReplays(app: FastifyInstance, guard: Guard): void {
  const { latchkey, operation } = openReplays(guard);
  const protect = fastifyProtect(app, latchkey, { tenant });
  app.post(
    "/replay",
    protect(operation, async (_request, reply) => {
      reply.code(201);
      return fixedAnswer();
    }),
  );
}
