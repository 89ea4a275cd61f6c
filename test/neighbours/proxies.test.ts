/** Gateways: a protected handler that hands the request on. Latchkey has read its body by then. */
import type { IncomingMessage, RequestListener } from "node:http";
import { Agent, request } from "node:http";
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";
import fastifyReplyFrom from "@fastify/reply-from";
import { getRequestListener } from "@hono/node-server";
import express from "express";
import express4 from "express4";
import fastify from "fastify";
import { Hono } from "hono";
import { proxy as honoProxy } from "hono/proxy";
import httpProxy from "http-proxy";
import { createProxyMiddleware } from "http-proxy-middleware";
import Koa from "koa";
import { afterEach, describe, expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { fetchProtect } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { type HttpService, httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";
import { isThorough } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import { nestListener, type platforms } from "./nest-routes.ts";

/** Node's own, without the types of each package. */
type Loose = ReturnType<JSON["parse"]>;
type Make = (service: HttpService, target: string) => RequestListener | Promise<RequestListener>;

// It has no types.
const require = createRequire(import.meta.url);
const expressHttpProxy: Loose = require("express-http-proxy");

const all = { singleTenant: true } as const;

const proxyOf = (target: string) => httpProxy.createProxyServer({ target });

const onExpress =
  (handle: (target: string) => (req: Loose, res: Loose) => unknown, framework: Loose = express): Make =>
  ({ latchkey, lease }, target) =>
    framework().post("/run", expressProtect(latchkey, all)(lease(), handle(target)));

const forwarding = (target: string) => {
  const proxy = createProxyMiddleware({ target, changeOrigin: true });
  return (req: Loose, res: Loose) => proxy(req, res, () => {});
};

const byExpressHttpProxy = (options?: object) => (target: string) => {
  const proxy = expressHttpProxy(target, options);
  return (req: Loose, res: Loose) =>
    new Promise((resolve, reject) => {
      res.on("finish", resolve);
      proxy(req, res, reject);
    });
};

async function onFastify(
  { latchkey, lease }: HttpService,
  prepare: (app: Loose) => unknown,
  handle: (request: Loose, reply: Loose) => Loose,
) {
  const app = fastify();
  await prepare(app);
  app.post("/run", fastifyProtect(app as Loose, latchkey, all)(lease(), handle) as Loose);
  await app.ready();
  return app.routing as RequestListener;
}

function passOn(app: Loose): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request: unknown, payload: unknown, done: Loose) => done(null, payload));
}

const onNest =
  (platform: keyof typeof platforms, handle: (target: string) => (req: Loose, res: Loose) => unknown): Make =>
  ({ latchkey, lease }, target) => {
    const interceptors = [nestProtect(latchkey, all)(lease())];
    const route = { path: "run", interceptors, handle: handle(target), answersItself: true };
    const prepare = (app: Loose) => {
      if (platform === "Fastify") passOn(app.getHttpAdapter().getInstance());
    };
    return nestListener(platform, [route], { app: { bodyParser: false }, prepare });
  };

const onHono =
  (
    handle: (target: string) => (c: Loose) => Loose,
    middleware: Loose = (_c: Loose, next: Loose) => next(),
  ): Make =>
  ({ latchkey, lease }, target) => {
    const handler = honoProtect(latchkey, all)(lease(), handle(target));
    return getRequestListener(new Hono().use(middleware).post("/run", handler as Loose).fetch);
  };

const onFetch =
  (handle: (target: string) => (request: Request, env: Loose) => Loose): Make =>
  ({ latchkey, lease }, target) => {
    const handler = fetchProtect(latchkey, all)(lease(), (request, _context, env: Loose) =>
      handle(target)(request, env),
    );
    return getRequestListener((request, env) => handler(request, env));
  };

/** A request of Node's own, whose body is the message's stream. */
async function pipedOn(target: string, message: Loose): Promise<Response> {
  const { promise, resolve, reject } = Promise.withResolvers<Response>();
  const outgoing = request(`${target}/run`, { method: "POST" }, (answer) =>
    text(answer).then((body) => resolve(new Response(body, { status: answer.statusCode ?? 0 })), reject),
  );
  message.pipe(outgoing.on("error", reject));
  return promise;
}

/** Front ends and proxies that show what others show, too. */
const further: Record<string, Make> = {
  "http-proxy-middleware on Express 4": onExpress(forwarding, express4),
  "express-http-proxy on Express, without reading it": onExpress(byExpressHttpProxy({ parseReqBody: false })),
  "@fastify/reply-from on Fastify, whose parser passes bodies on": (service, target) =>
    onFastify(
      service,
      async (app) => {
        passOn(app);
        await app.register(fastifyReplyFrom, { base: target });
      },
      (_request, reply) => reply.from("/run"),
    ),
  "http-proxy-middleware on Nest on Express": onNest("Express", forwarding),
  "hono/proxy with the context's request on Hono": onHono(
    (target) => (c) => honoProxy(`${target}/run`, c.req),
  ),
  "fetch with the request on Fetch": onFetch(
    (target) => (given) => fetch(new Request(`${target}/run`, given)),
  ),
};

const services: Record<string, Make> = {
  ...(isThorough ? further : {}),
  "http-proxy-middleware on Express": onExpress(forwarding),
  "http-proxy on Express": onExpress((target) => (req, res) => proxyOf(target).web(req, res)),
  "fetch with the request as its body": onExpress((target) => async (req, res) => {
    const { method } = req;
    const answer = await fetch(`${target}/run`, { method, body: req, duplex: "half" } as Loose);
    res.status(answer.status).send(await answer.text());
  }),
  "a pipe into a request of its own": onExpress(
    (target) => (req, res) =>
      void req.pipe(
        request(`${target}/run`, { method: "POST" }, (answer) => {
          res.writeHead(answer.statusCode ?? 0);
          answer.pipe(res);
        }),
      ),
  ),
  "http-proxy on Koa": ({ latchkey, lease }, target) =>
    new Koa()
      .use(
        koaProtect(latchkey, all)(
          lease(),
          ({ req, res }) =>
            new Promise((resolve) => {
              res.on("finish", resolve);
              proxyOf(target).web(req, res);
            }),
        ) as Loose,
      )
      .callback(),
  "http-proxy on Fastify, whose parser passes bodies on": (service, target) =>
    onFastify(service, passOn, (request, reply) => {
      reply.hijack();
      proxyOf(target).web(request.raw, reply.raw);
    }),
  "@fastify/reply-from on Fastify": (service, target) =>
    onFastify(
      service,
      (app) => app.register(fastifyReplyFrom, { base: target }),
      (_request, reply) => reply.from("/run"),
    ),
  "express-http-proxy on Express": onExpress(byExpressHttpProxy()),
  "http-proxy on Nest on Express": onNest("Express", (target) => (req, res) => proxyOf(target).web(req, res)),
  "http-proxy on Nest on Fastify": onNest("Fastify", (target) => (req, reply) => {
    reply.hijack();
    proxyOf(target).web(req.raw, reply.raw);
  }),
  "hono/proxy with the request's stream on Hono": onHono(
    (target) => (c) =>
      honoProxy(`${target}/run`, { headers: c.req.header(), method: c.req.method, body: c.req.raw.body }),
  ),
  "fetch with the request on Hono": onHono((target) => (c) => fetch(new Request(`${target}/run`, c.req.raw))),
  "a pipe from Node's message on Hono": onHono((target) => (c) => pipedOn(target, c.env.incoming)),
  "a pipe from Node's message on Hono, beside the request": onHono((target) => async (c) => {
    const [answer, body] = [await pipedOn(target, c.env.incoming), await c.req.text()];
    return body === '{"amount":1}' ? answer : c.text(body, 500);
  }),
  "a pipe from Node's message on Fetch": onFetch(
    (target) =>
      (_request, { incoming }) =>
        pipedOn(target, incoming),
  ),
  "http-proxy on node:http": ({ latchkey, lease }, target) => {
    const handle = nodeProtect(latchkey, all)(lease(), (req, res) => void proxyOf(target).web(req, res));
    return (req, res) => void handle(req, res).catch(() => res.destroy());
  },
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(listener: RequestListener): Promise<string> {
  const { url, close } = await listen(listener);
  closing.push(close);
  return url;
}

async function start(make: Make) {
  const received: string[] = [];
  const upstream = await open(async (req, res) => {
    received.push(await text(req));
    res.writeHead(201, { "Content-Type": "text/plain" }).end(`received ${received.at(-1)}`);
  });
  return { url: await open(await make(httpService(), upstream)), received };
}

describe.each(Object.entries(services))("%s", (_name, make) => {
  test("hands the body on, once", async () => {
    const { url, received } = await start(make);
    const key = newKey();
    for (const replayed of [null, "true"]) {
      const answer = await send(url, { key });
      expect([answer.status, answer.body.toString()]).toEqual([201, 'received {"amount":1}']);
      expect(answer.header("idempotent-replayed")).toBe(replayed);
    }
    expect((await send(url, { key, body: '{"amount":2}' })).status).toBe(422);
    expect(received).toEqual(['{"amount":1}']);
  });
});

const notReading: Record<string, (service: HttpService) => RequestListener> = {
  "node:http": ({ latchkey, lease }) => {
    const handle = nodeProtect(latchkey, all)(lease(), (_req, res) => void res.end("done"));
    return (req, res) => void handle(req, res).catch(() => res.destroy());
  },
  Hono: ({ latchkey, lease }) => {
    const handler = honoProtect(latchkey, all)(lease(), async (c: Loose) => c.text("done"));
    return getRequestListener(new Hono().post("/", handler as Loose).fetch);
  },
  Fetch: ({ latchkey, lease }) => {
    const handler = fetchProtect(latchkey, all)(lease(), async () => new Response("done"));
    return getRequestListener((given) => handler(given));
  },
};

test.each(Object.entries(notReading))(
  "%s: bodies that are not read again do not stop the connection",
  async (_name, make) => {
    const url = await open(make(httpService()));
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ports = new Set<number | undefined>();
    for (const body of ["x".repeat(500_000), "y".repeat(500_000), "z"]) {
      const headers = { "Idempotency-Key": newKey(), "Content-Type": "text/plain" };
      const answer = await new Promise<string>((resolve, reject) => {
        const outgoing = request(url, { method: "POST", agent, headers }, (response) => {
          ports.add(response.socket.localPort);
          resolve(text(response));
        });
        outgoing.on("error", reject).end(body);
      });
      expect(answer).toBe("done");
    }
    expect(ports.size).toBe(1);
    agent.destroy();
  },
);

/** The messages of a first request and its replay, each once its answer is sent. */
async function answeredMessages(make: (service: HttpService) => RequestListener) {
  const answered: { readonly message: IncomingMessage; readonly hadEnded: boolean }[] = [];
  const handle = make(httpService());
  const url = await open((message, res) => {
    res.once("close", () => answered.push({ message, hadEnded: message.readableEnded }));
    handle(message, res);
  });
  const key = newKey();
  for (const replayed of [null, "true"])
    expect((await send(url, { key, target: "/" })).header("idempotent-replayed")).toBe(replayed);
  await until(() => answered.length === 2);
  return answered;
}

test.each(Object.entries(notReading))("%s: a message whose body is not read again ends", async (_, make) => {
  const answered = await answeredMessages(make);
  await until(() => answered.every(({ message }) => message.closed));
});

test.each(["Hono", "Fetch"])(
  "%s: it has ended before its answer, so Hono's server sets no timer",
  async (name) => {
    const answered = await answeredMessages(notReading[name] as (service: HttpService) => RequestListener);
    expect(answered.map(({ hadEnded }) => hadEnded)).toEqual([true, true]);
  },
);

type Reading = (service: HttpService, bodies: string[]) => RequestListener;
const readingAgain: Record<string, Reading> = {
  Express: ({ latchkey, operation }, bodies) =>
    express().post(
      "/run",
      expressProtect(latchkey, all)(operation(), async (req, res) => {
        bodies.push(await text(req));
        res.status(201).end();
      }),
    ),
  Hono: ({ latchkey, operation }, bodies) => {
    const handler = honoProtect(latchkey, all)(operation(), async (c: Loose) => {
      bodies.push(await text(c.env.incoming));
      return c.body(null, 201);
    });
    return getRequestListener(new Hono().post("/run", handler as Loose).fetch);
  },
  Fetch: ({ latchkey, operation }, bodies) => {
    const handler = fetchProtect(latchkey, all)(operation(), async (_request, _context, env: Loose) => {
      bodies.push(await text(env.incoming));
      return new Response(null, { status: 201 });
    });
    return getRequestListener((given, env) => handler(given, env));
  },
};

test.each(Object.entries(readingAgain))(
  "%s: a transaction whose run has read the stream does not run again without it: 503, and a retry runs",
  async (_name, make) => {
    const bodies: string[] = [];
    const url = await open(make(httpService({ refusedCommits: 1 }), bodies));
    const key = newKey();
    const first = await send(url, { key });
    expect([first.status, first.json().code]).toEqual([503, "store-unavailable"]);
    expect((await send(url, { key })).status).toBe(201);
    expect(bodies).toEqual(['{"amount":1}', '{"amount":1}']);
  },
);
