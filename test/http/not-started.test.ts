/** What fails in an adapter after a key was reserved and before the handler is called: nothing was executed, the key is free. */
import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import { afterEach, expect, test } from "vitest";
import { expressProtect, expressRecord } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { fetchProtect } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { nestListener } from "../neighbours/nest-routes.ts";
import { type HttpService, httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

/** Requests and responses of whichever framework. */
type Loose = ReturnType<JSON["parse"]>;
/** `run` is what the handler does first. */
type Make = (service: HttpService, run: () => void) => RequestListener | Promise<RequestListener>;

const one = { singleTenant: true } as const;
const isBroken = (headers: Loose) => headers["x-broken"] !== undefined;
const broken = (): never => {
  throw new Error("broken before the handler");
};

/** A response that cannot be held: what it has so far cannot be read. */
const breakResponse = (req: Loose, res: Loose) => {
  if (isBroken(req.headers)) res.getRawHeaderNames = broken;
};

/** A reply whose headers can be read so often, and then once not. */
const breakReply = (request: Loose, reply: Loose, readings = 0) => {
  if (!isBroken(request.headers)) return;
  const { getHeaders } = reply;
  let left = readings;
  reply.getHeaders = () => (left-- === 0 ? broken() : getHeaders.call(reply));
};

/** A request of another class than the platform's, of which none with an unread body can be made. */
function breakRequest(request: Request): Request {
  if (request.headers.get("x-broken") === null) return request;
  const headers = { get: (name: string) => request.headers.get(name), [Symbol.iterator]: broken };
  const { url, method, signal, body } = request;
  return {
    url,
    method,
    signal,
    body,
    bodyUsed: false,
    headers,
    arrayBuffer: () => request.arrayBuffer(),
  } as Loose;
}

const adapters: Record<string, Make> = {
  Express: ({ latchkey, lease }, run) => {
    const handler = expressProtect(latchkey, one)(lease(), (_req, res) => {
      run();
      res.status(201).end();
    });
    const breaking = (req: Loose, res: Loose, next: Loose) => next(breakResponse(req, res));
    return express()
      .use(breaking)
      .post("/run", handler as Loose);
  },
  "Express, recorded": ({ latchkey, lease }, run) => {
    const breaking = (req: Loose, res: Loose, next: Loose) => next(breakResponse(req, res));
    return express()
      .use(breaking)
      .use(expressRecord(latchkey, one)(lease()))
      .post("/run", (_req, res) => {
        run();
        res.status(201).end();
      });
  },
  Koa: ({ latchkey, lease }, run) => {
    const app = new Koa();
    app.silent = true;
    const handler = koaProtect(latchkey, one)(lease(), (ctx) => {
      run();
      ctx.status = 201;
    });
    return app
      .use((ctx, next) => {
        breakResponse(ctx.req, ctx.res);
        return next();
      })
      .use(handler as Loose)
      .callback();
  },
  "node:http": ({ latchkey, lease }, run) => {
    const handle = nodeProtect(latchkey, one)(lease(), (_req, res) => {
      run();
      res.writeHead(201).end();
    });
    return (req, res) => {
      breakResponse(req, res);
      handle(req, res).catch(() => {
        Reflect.deleteProperty(res, "getRawHeaderNames");
        res.writeHead(500).end();
      });
    };
  },
  Fastify: async ({ latchkey, lease }, run) => {
    const app = fastify();
    const handler = fastifyProtect(
      app as Loose,
      latchkey,
      one,
    )(lease(), (_request, reply) => {
      run();
      return reply.code(201).send();
    });
    app.addHook("preHandler", async (request, reply) => breakReply(request, reply));
    app.post("/run", handler as Loose);
    await app.ready();
    return app.routing as RequestListener;
  },
  "Nest on Fastify": ({ latchkey, lease }, run) => {
    const protect = nestProtect(latchkey, one)(lease());
    const breaking = {
      intercept(host: Loose, next: Loose) {
        const http = host.switchToHttp();
        // Latchkey looks at the reply before it reserves the key.
        breakReply(http.getRequest(), http.getResponse(), 1);
        return next.handle();
      },
    };
    return nestListener("Fastify", [{ path: "run", interceptors: [breaking, protect], handle: run }]);
  },
  Hono: ({ latchkey, lease }, run) => {
    const handler = honoProtect(latchkey, one)(lease(), (c: Loose) => {
      run();
      return c.body(null, 201);
    });
    const app = new Hono()
      .use((c, next) => {
        const raw = breakRequest(c.req.raw);
        if (raw !== c.req.raw) c.req.raw = raw;
        return next();
      })
      .post("/run", handler as Loose)
      .onError((_error, c) => c.body(null, 500));
    return getRequestListener(app.fetch);
  },
  Fetch: ({ latchkey, lease }, run) => {
    const handler = fetchProtect(latchkey, one)(lease(), () => {
      run();
      return new Response(null, { status: 201 });
    });
    return getRequestListener((request) =>
      handler(breakRequest(request)).catch(() => new Response(null, { status: 500 })),
    );
  },
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

test.each(Object.entries(adapters))("%s: the key is free again under a lease", async (_name, make) => {
  const service = httpService();
  let runs = 0;
  const { url, close } = await listen(await make(service, () => void runs++));
  closing.push(close);
  const key = newKey();
  const failed = await send(url, { key, headers: [["X-Broken", "1"]] });
  expect([failed.status, runs]).toEqual([500, 0]);
  expect(service.events.map(({ type }) => type)).toEqual(["reserved", "attempt_failed", "released"]);
  for (const replayed of [null, "true"]) {
    const retry = await send(url, { key });
    expect([retry.status, retry.header("idempotent-replayed")]).toEqual([201, replayed]);
  }
  expect(runs).toBe(1);
});
