/** Messages of `node:http2`: a request need not say whether it has a body, so a fingerprint could miss it. */
import { once } from "node:events";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { connect, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { getRequestListener } from "@hono/node-server";
import fastify from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import { afterEach, expect, test } from "vitest";
import { fastifyProtect, fastifyServe } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoProtect, honoServe } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect, koaServe } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nodeProtect, nodeServe } from "../../packages/latchkey/src/http/node.ts";
import { newKey } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Sends a JSON body over HTTP/2 without its length. */
async function post(port: number): Promise<{ status: number; body: string }> {
  const session = connect(`http://127.0.0.1:${port}`);
  closing.push(async () => session.close());
  const stream = session.request({
    ":method": "POST",
    ":path": "/run",
    "content-type": "application/json",
    "idempotency-key": newKey(),
  });
  stream.end('{"amount":1}');
  const [headers] = await once(stream, "response");
  return { status: headers[":status"], body: await text(stream) };
}

async function listenOverHttp2(listener: RequestListener): Promise<number> {
  const server = createServer(listener as never).listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(async () => server.close());
  return (server.address() as AddressInfo).port;
}

function setUp() {
  const service = httpService();
  let runs = 0;
  const owned = service.latchkey.operation("served", {
    version: "1",
    writes: "none",
    run: async () => {
      runs += 1;
      return { status: 201, body: {} };
    },
  });
  const handler = async () => {
    runs += 1;
  };
  return { ...service, owned, handler, runs: () => runs, all: { singleTenant: true } as const };
}

type World = ReturnType<typeof setUp>;

/** Answers with the error's message, as far as the framework does not do so by itself. */
function overNode(handle: (req: IncomingMessage, res: ServerResponse) => Promise<void>): RequestListener {
  return (req, res) => {
    handle(req, res).catch((error: Error) => {
      res.statusCode = 500;
      res.end(error.message);
    });
  };
}

async function overFastify(route: (app: ReturnType<typeof fastify>) => unknown): Promise<number> {
  const app = fastify({ http2: true } as object);
  app.post("/run", route(app) as () => unknown);
  await app.listen({ port: 0, host: "127.0.0.1" });
  closing.push(() => app.close());
  return (app.server.address() as AddressInfo).port;
}

function overKoa(middleware: Koa.Middleware): RequestListener {
  const app = new Koa();
  app.use(async (ctx, next) => {
    await next().catch((error: Error) => {
      ctx.status = 500;
      ctx.body = error.message;
    });
  });
  app.use(middleware);
  return app.callback();
}

function overHono(handler: unknown, reads = false): RequestListener {
  const app = new Hono();
  app.onError((error, c) => c.text(error.message, 500));
  if (reads) app.use(async (c, next) => void ((await c.req.text()) && (await next())));
  app.post("/run", handler as never);
  return getRequestListener(app.fetch) as unknown as RequestListener;
}

const fronts: Record<string, (world: World) => Promise<number>> = {
  nodeProtect: ({ latchkey, operation, handler, all }) =>
    listenOverHttp2(overNode(nodeProtect(latchkey, all)(operation(), handler))),
  nodeServe: ({ latchkey, owned, all }) =>
    listenOverHttp2(overNode(nodeServe(latchkey, all)(owned, () => ({}) as never))),
  koaProtect: ({ latchkey, operation, handler, all }) =>
    listenOverHttp2(overKoa(koaProtect(latchkey, all)(operation(), handler) as Koa.Middleware)),
  koaServe: ({ latchkey, owned, all }) =>
    listenOverHttp2(overKoa(koaServe(latchkey, all)(owned, () => ({}) as never) as Koa.Middleware)),
  honoProtect: ({ latchkey, operation, handler, all }) =>
    listenOverHttp2(
      overHono(
        honoProtect(latchkey, all)(operation(), async (c) => {
          await handler();
          return c.json({});
        }),
      ),
    ),
  "honoServe, behind a reader of the body": ({ latchkey, owned, all }) =>
    listenOverHttp2(
      overHono(
        honoServe(latchkey, all)(owned, () => ({}) as never),
        true,
      ),
    ),
  "koaServe, behind a parser": ({ latchkey, owned, all }) =>
    listenOverHttp2(
      overKoa(async (ctx) => {
        Object.assign(ctx.request, { rawBody: await text(ctx.req) });
        await koaServe(latchkey, all)(owned, () => ({}) as never)(ctx as never);
      }),
    ),
  honoServe: ({ latchkey, owned, all }) =>
    listenOverHttp2(overHono(honoServe(latchkey, all)(owned, () => ({}) as never))),
  fastifyProtect: ({ latchkey, operation, handler, all }) =>
    overFastify((app) => fastifyProtect(app, latchkey, all)(operation(), handler)),
  fastifyServe: ({ latchkey, owned, all }) =>
    overFastify((app) => fastifyServe(app, latchkey, all)(owned, () => ({}) as never)),
};

test.each(Object.entries(fronts))("%s refuses them before anything runs", async (_name, start) => {
  const world = setUp();
  const { status, body } = await post(await start(world));
  expect([status, body]).toEqual([500, expect.stringContaining("HTTP/2")]);
  expect(world.runs()).toBe(0);
  expect(world.events).toEqual([]);
});
