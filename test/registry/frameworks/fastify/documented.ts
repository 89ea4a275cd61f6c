import type { RequestListener } from "node:http";
import fastify, { type FastifyReply, type FastifyRequest } from "fastify";
import { fastifyProtect } from "../../../../packages/latchkey/src/http/fastify/fastify.ts";
import {
  type Handlers,
  hint,
  limit,
  type MakeListener,
  type Parts,
  pastTheHold,
  single,
} from "../../../docs/handlers.ts";

export const services: Readonly<Record<string, MakeListener>> = { fastify: onFastify };

async function onFastify({ service, row, ran, nextRequest }: Parts): Promise<RequestListener | null> {
  const handle = fastifyHandlers[row];
  if (handle === null) return null;
  const app = fastify();
  app.addHook("onRequest", async (_request, reply) => void reply.header("X-Request", nextRequest()));
  const protect = fastifyProtect(app, service.latchkey, single);
  const handler = protect(service.operation(limit), (request: FastifyRequest, reply: FastifyReply) => {
    ran();
    return handle(request, reply);
  });
  app.post("/run", handler);
  await app.ready();
  return app.routing;
}

export const fastifyHandlers: Handlers<(request: FastifyRequest, reply: FastifyReply) => unknown> = {
  phrase(_request, reply) {
    reply.raw.statusMessage = "Made";
    return reply.code(201).send("done");
  },
  trailers: (_request, reply) => reply.trailer("x-sum", async () => "1").send("done"),
  hints(_request, reply) {
    reply.raw.writeEarlyHints(hint);
    return reply.send("done");
  },
  twice(_request, reply) {
    reply.send("one");
    return reply.send("two");
  },
  nothing: async () => {},
  endless(_request, reply) {
    reply.raw.writeHead(200, { "Content-Type": "text/event-stream" });
    reply.raw.write("data: 1\n\n");
  },
  before: (_request, reply) => reply.send("done"),
  aside(_request, reply) {
    reply.hijack();
    reply.raw.end("aside");
  },
  socket(request, reply) {
    request.raw.socket.write(pastTheHold);
    return reply.send("done");
  },
};
