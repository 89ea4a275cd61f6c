import fastify, {
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
} from "fastify";
import { expectTypeOf, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import { fastifyProtect } from "./fastify.ts";

const latchkey = createLatchkey({ store: memoryStore() });
const transactional = latchkey.operation("types.transaction", { execution: "transaction" });
const leased = latchkey.operation("types.lease", { execution: "lease" });

interface Order {
  Body: { item: string };
  Params: { id: string };
}

test("an annotated tenant function gives handlers Fastify's own request", () => {
  const app = fastify();
  const protect = fastifyProtect(app, latchkey, {
    tenant: (request: FastifyRequest) => request.hostname,
  });
  app.post(
    "/orders",
    protect(transactional, async (request, reply: FastifyReply, { tx, attempt }) => {
      expectTypeOf(request).toEqualTypeOf<FastifyRequest>();
      expectTypeOf(tx).toEqualTypeOf<MemoryTransaction>();
      return reply.code(201).send({ id: attempt.id });
    }),
  );
});

test("a route's own types reach its handler", () => {
  const app = fastify();
  const protect = fastifyProtect(app, latchkey, { tenant: (request: FastifyRequest) => request.hostname });
  app.post<Order>(
    "/orders/:id",
    { schema: { body: { type: "object" } } },
    protect(transactional, async (request: FastifyRequest<Order>, reply: FastifyReply<Order>) => {
      expectTypeOf(request.body.item).toEqualTypeOf<string>();
      expectTypeOf(request.params.id).toEqualTypeOf<string>();
      return reply.send({});
    }),
  );
  app.route<Order>({
    method: "POST",
    url: "/orders/:id/lines",
    handler: protect(leased, (request: FastifyRequest<Order>) => ({ item: request.body.item })),
  });
});

test("without annotation they get what every request and reply has", () => {
  const app = fastify();
  const protect = fastifyProtect(app, latchkey, { tenant: ({ headers }) => String(headers["x-tenant"]) });
  app.post(
    "/orders",
    protect(leased, async (request, reply, { attempt }) =>
      reply.code(201).header("Location", `/orders/${attempt.id}`).send({ item: request.body.item }),
    ),
  );
});

test("it is called on an app, on a plugin's instance, and on apps with options", () => {
  const plugin: FastifyPluginAsync = async (instance: FastifyInstance) => {
    fastifyProtect(instance, latchkey, { singleTenant: true });
  };
  fastify({ logger: false }).register(plugin);
});

test("a lease has no tx", () => {
  const protect = fastifyProtect(fastify(), latchkey, { singleTenant: true });
  // @ts-expect-error there is no transaction under a lease
  protect(leased, (_request, _reply, { tx }) => tx);
});
