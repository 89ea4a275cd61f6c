/** Libraries that make the answer themselves: GraphQL, tRPC, route handlers in Next's form. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { initTRPC } from "@trpc/server";
import { fastifyRequestHandler } from "@trpc/server/adapters/fastify";
import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import {
  type NodeHTTPRequest,
  type NodeHTTPResponse,
  nodeHTTPRequestHandler,
} from "@trpc/server/adapters/node-http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Neighbours } from "./frame.ts";
import type { ExpressMount } from "./front-ends/express.ts";
import { serveListener } from "./front-ends/served.ts";
import type { World } from "./world.ts";

interface Yoga {
  (req: IncomingMessage, res: ServerResponse): Promise<void>;
  fetch(request: Request): Promise<Response>;
  fetch(url: string, init: RequestInit): Promise<Response>;
  handleNodeRequestAndResponse(req: IncomingMessage, res: ServerResponse): Promise<Response>;
}

interface YogaModule {
  createYoga(options: object): Yoga;
  createSchema(definition: object): object;
}

/** Its own types bring those of browsers to everything that is compiled with them. */
const { createYoga, createSchema }: YogaModule = createRequire(import.meta.url)("graphql-yoga");

const mutation = (amount: number) => JSON.stringify({ query: `mutation { order(amount: ${amount}) }` });

/** GraphQL answers JSON, whatever the world's handler would have answered. */
function yogaOf(world: World) {
  const order = async (_: unknown, { amount }: { readonly amount: number }) => {
    await world.run(amount);
    return amount;
  };
  return createYoga({
    graphqlEndpoint: "/run",
    logging: false,
    schema: createSchema({
      typeDefs: "type Query { orders: Int } type Mutation { order(amount: Int!): Int }",
      resolvers: { Mutation: { order } },
    }),
  });
}

function routerOf(world: World) {
  const { procedure, router } = initTRPC.create();
  return router({
    run: procedure
      .input((input) => input as { readonly amount: number })
      .mutation(async ({ input }) => {
        await world.run(input);
        return { ordered: input.amount };
      }),
  });
}

const yogaOnExpress: ExpressMount = ({ app, express, world, protect }) => {
  const yoga = yogaOf(world);
  app.use(express.json());
  app.post(
    "/run",
    protect((req, res) => yoga(req, res), { fingerprint: "parsed" }),
  );
};

const jsonOnly = { answers: ["json"] } as const;

export const schemas: Neighbours<"graphqlYoga" | "trpc" | "routeHandlers"> = {
  graphqlYoga: {
    ...jsonOnly,
    request: { body: mutation(1) },
    otherRequest: { body: mutation(2) },
    on: {
      express: yogaOnExpress,
      express4: yogaOnExpress,
      fastify({ app, world, protect }) {
        const yoga = yogaOf(world);
        app.post(
          "/run",
          protect((request, reply) => yogaOnFastify(yoga, request, reply)),
        );
      },
      nest: {
        handle: (world) => {
          const yoga = yogaOf(world);
          return (req: IncomingMessage, res: ServerResponse) => yoga(req, res);
        },
      },
      nestFastify: {
        handle: (world) => {
          const yoga = yogaOf(world);
          return (request: FastifyRequest, reply: FastifyReply) => yogaOnFastify(yoga, request, reply);
        },
      },
      koa({ app, world, protect }) {
        const yoga = yogaOf(world);
        const answer = protect(async (ctx) => {
          const response = await yoga.handleNodeRequestAndResponse(ctx.req, ctx.res);
          ctx.status = response.status;
          ctx.set(Object.fromEntries(response.headers));
          ctx.body = await response.text();
        });
        app.use(answer);
      },
      hono({ app, world, protect }) {
        const yoga = yogaOf(world);
        app.post(
          "/run",
          protect((c) => yoga.fetch(c.req.raw)),
        );
      },
      fetch({ world, protect }) {
        const yoga = yogaOf(world);
        return protect((request) => yoga.fetch(request));
      },
      node({ world, protect }) {
        const yoga = yogaOf(world);
        const handle = protect((req, res) => yoga(req, res));
        return serveListener((req, res) => void handle(req, res));
      },
    },
  },
  trpc: {
    ...jsonOnly,
    on: {
      fastify({ app, world, protect }) {
        const router = routerOf(world);
        app.post(
          "/run",
          protect((req, res) => fastifyRequestHandler({ router, req, res, path: "run" })),
        );
      },
      koa({ app, world, protect }) {
        const router = routerOf(world);
        const answer = protect(async (ctx) => {
          const { method, req: body } = ctx;
          const headers = { "content-type": "application/json" };
          const init: RequestInit = { method, headers, body: body as never, duplex: "half" };
          const response = await fetchRequestHandler({
            endpoint: "/",
            req: new Request(ctx.href, init),
            router,
          });
          ctx.status = response.status;
          ctx.set(Object.fromEntries(response.headers));
          ctx.body = await response.text();
        });
        app.use(answer);
      },
      nest: {
        handle: (world) => {
          const router = routerOf(world);
          return (req: NodeHTTPRequest, res: NodeHTTPResponse) =>
            nodeHTTPRequestHandler({ router, req, res, path: "run" });
        },
      },
      nestFastify: {
        handle: (world) => {
          const router = routerOf(world);
          return (req: FastifyRequest, res: FastifyReply) =>
            fastifyRequestHandler({ router, req, res, path: "run" });
        },
      },
      hono({ app, world, protect }) {
        const router = routerOf(world);
        app.post(
          "/run",
          protect((c) => fetchRequestHandler({ endpoint: "/", req: c.req.raw, router })),
        );
      },
      fetch({ world, protect }) {
        const router = routerOf(world);
        return protect((req) => fetchRequestHandler({ endpoint: "/", req, router }));
      },
      node({ world, protect }) {
        const router = routerOf(world);
        const handle = protect((req, res) => nodeHTTPRequestHandler({ router, req, res, path: "run" }));
        return serveListener((req, res) => void handle(req, res));
      },
      express: trpcOnExpress(),
      express4: trpcOnExpress(),
    },
  },
  routeHandlers: {
    on: {
      fetch({ protect, handler }) {
        const route = { POST: protect(handler) };
        return (request) =>
          request.method === "POST" ? route.POST(request) : new Response(null, { status: 405 });
      },
    },
  },
};

async function yogaOnFastify(yoga: Yoga, request: FastifyRequest, reply: FastifyReply) {
  const response = await yoga.fetch("http://service/run", {
    method: request.method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(request.body),
  });
  return reply
    .code(response.status)
    .headers(Object.fromEntries(response.headers))
    .send(await response.text());
}

function trpcOnExpress(): ExpressMount {
  return ({ app, express, world, protect }) => {
    const router = routerOf(world);
    app.use(express.json());
    const handle = protect((req, res) => nodeHTTPRequestHandler({ router, req, res, path: "run" }), {
      fingerprint: "parsed",
    });
    app.post("/run", handle);
  };
}
