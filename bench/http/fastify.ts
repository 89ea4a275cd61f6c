import type { RequestListener } from "node:http";
import fastify from "fastify";
import { fixedAnswer, type Order, placeOrder } from "./jobs.ts";
import { openPool } from "./services.ts";
import type { Guard, Job } from "./subject.ts";

export async function startFastify(_job: Job, guard: Guard): Promise<RequestListener> {
  if (guard !== "none") throw new Error("latchkey/fastify does not exist yet");
  const app = fastify();
  const pool = openPool();
  app.post<{ Body: Order }>("/order", async (request, reply) => {
    reply.code(201);
    return placeOrder(pool, request.body);
  });
  app.post("/replay", async (_request, reply) => {
    reply.code(201);
    return fixedAnswer();
  });
  await app.ready();
  return app.routing;
}
