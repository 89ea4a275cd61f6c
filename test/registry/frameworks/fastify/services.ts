import type { RequestListener } from "node:http";
import fastify, { type FastifyPluginAsync } from "fastify";
import {
  fastifyProtect,
  fastifyServe,
  fastifyStatus,
} from "../../../../packages/latchkey/src/http/fastify/fastify.ts";
import {
  amountIn,
  breakReply,
  type SmallServices,
  single,
  statusOptions,
} from "../../../http/small-services.ts";

/** Requests and responses, whose types are not looked at here. */
type Loose = ReturnType<JSON["parse"]>;

export const services: SmallServices = {
  async served({ latchkey, operation }) {
    let requests = 0;
    const app = fastify();
    app.addHook("onRequest", async (_request, reply) => {
      reply.header("X-Request", ++requests);
    });
    const serve = fastifyServe(app, latchkey, single);
    app.post(
      "/run",
      serve(operation, (request) => ({ amount: amountIn(request.body) })),
    );
    await app.ready();
    return app.routing;
  },
  async status({ latchkey, operation }) {
    let requests = 0;
    const app = fastify();
    app.addHook("onRequest", async (_request, reply) => {
      reply.headers({ "X-Request": ++requests, "Cache-Control": "public" });
    });
    const routes: FastifyPluginAsync = async (plugin) => {
      const serve = fastifyServe(plugin, latchkey, statusOptions);
      plugin.post(
        "/run",
        serve(operation, () => null as never),
      );
      plugin.get("/operations/:id", fastifyStatus(latchkey, statusOptions));
    };
    await app.register(routes, { prefix: "/v1" });
    await app.ready();
    return app.routing;
  },
  notStarted: {
    Fastify: async ({ latchkey, lease }, run) => {
      const app = fastify();
      const handler = fastifyProtect(
        app as Loose,
        latchkey,
        single,
      )(lease(), (_request, reply) => {
        run();
        return reply.code(201).send();
      });
      app.addHook("preHandler", async (request, reply) => breakReply(request, reply));
      app.post("/run", handler as Loose);
      await app.ready();
      return app.routing as RequestListener;
    },
  },
  routed: async ({ latchkey, lease }, options) => {
    const app = fastify();
    const handler: Loose = fastifyProtect(app as Loose, latchkey, single)(lease(options), async () => "done");
    const routes = (inner: Loose, _options: Loose, done: () => void) => {
      inner.post("/*", handler);
      done();
    };
    await app.register(routes, { prefix: "/items" });
    await app.ready();
    return (req, res) => void app.routing(req, res);
  },
};
