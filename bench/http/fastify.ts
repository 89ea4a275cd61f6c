import type { RequestListener } from "node:http";
import fastify, { type FastifyInstance, type FastifyRequest } from "fastify";
import { fastifyProtect } from "latchkey/fastify";
import { fixedAnswer, type Order, placeOrder, writeOrder } from "./jobs.ts";
import { openOrders, openPool, openReplays } from "./services.ts";
import type { Guard, Job } from "./subject.ts";

const tenant = (request: FastifyRequest) => String(request.headers["x-tenant"]);

export async function startFastify(job: Job, guard: Guard): Promise<RequestListener> {
  const app = fastify();
  if (guard === "none") handlePlainly(app);
  else if (job === "order") protectOrders(app);
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

function protectOrders(app: FastifyInstance): void {
  const { latchkey, operation } = openOrders();
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
