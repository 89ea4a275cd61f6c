/** Time-outs around a protected route: the client gets their answer, and the handler's own end is what is stored. */
import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import koaTimeout from "@uswitch/koa-timeout";
import connectTimeout from "connect-timeout";
import express from "express";
import expressTimeout from "express-timeout-handler";
import express4 from "express4";
import fastify from "fastify";
import { Hono } from "hono";
import { timeout as honoTimeout } from "hono/timeout";
import Koa from "koa";
import { afterEach, describe, expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect, fastifyServe } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import type { Execution } from "../../packages/latchkey/src/index.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { type HttpService, httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";
import { deferred, until } from "../support/until.ts";

/** Node's own, without the types of each package. */
type Loose = ReturnType<JSON["parse"]>;
interface Slow {
  readonly service: HttpService;
  readonly operation: Loose;
  /** Without `operation`: one that owns its work. */
  readonly owned: () => Loose;
  /** Settles once the client has the time-out's answer. */
  readonly answered: Promise<void>;
}
type Make = (slow: Slow) => RequestListener | Promise<RequestListener>;

const one = { singleTenant: true } as const;
const shortMs = 30;

const onExpress =
  (
    framework: Loose,
    timeout: Loose,
    helpers: Loose = (_req: Loose, _res: Loose, next: () => void) => next(),
  ): Make =>
  ({ service, operation, answered }) =>
    framework()
      .use(timeout)
      .use(helpers)
      .post(
        "/run",
        expressProtect(service.latchkey, one)(operation, async (_req: Loose, res: Loose) => {
          res.set("X-Before", "handler");
          await answered;
          res.json({ done: true });
        }),
      )
      .use((error: Loose, _req: Loose, res: Loose, next: (error: unknown) => void) => {
        if (res.headersSent) return next(error);
        res
          .status(error.status ?? 500)
          .set("X-From", "time-out")
          .json({ late: true });
      });

const koaRoute = ({ service, operation, answered }: Slow): Loose =>
  koaProtect(service.latchkey, one)(operation, async (ctx: Loose) => {
    ctx.set("X-Before", "handler");
    await answered;
    ctx.body = { done: true };
  });

const koaApp = (slow: Slow, timeout: Loose): RequestListener => {
  const app = new Koa().use(timeout).use(koaRoute(slow));
  app.silent = true;
  return app.callback();
};

const answerLate: Loose = async (ctx: Koa.Context, next: () => Promise<void>) => {
  const late = new Promise((resolve) => setTimeout(resolve, shortMs, "late"));
  if ((await Promise.race([next(), late])) !== "late") return;
  ctx.status = 504;
  ctx.body = { late: true };
  ctx.set("X-From", "time-out");
};

const onFastify =
  (options: Loose, setUp: (app: Loose) => unknown = () => {}, routeOptions: Loose = {}): Make =>
  async ({ service, operation, answered }) => {
    const app: Loose = fastify(options);
    const protect: Loose = fastifyProtect(app, service.latchkey, one);
    await setUp(app);
    const handler = async (_request: Loose, reply: Loose) => {
      reply.code(201).header("X-Before", "handler").header("Location", "/1");
      reply.raw.setHeader("X-Before-Raw", "handler");
      await answered;
      return reply.getHeader("location") === "/1" && { done: true };
    };
    app.post("/run", routeOptions, protect(operation, handler));
    await app.ready();
    return (req, res) => void app.routing(req, res);
  };

const lateHook = (app: Loose) =>
  app.addHook("onRequest", async (_request: Loose, reply: Loose) => {
    reply.header("Set-Cookie", ["a=1", "b=2"]);
    const send = () => reply.sent || reply.code(503).header("X-From", "time-out").send({ late: true });
    setTimeout(send, shortMs);
  });

const services: Record<string, Make> = {
  "Fastify's handlerTimeout": onFastify({}, undefined, { handlerTimeout: shortMs }),
  "Fastify's handlerTimeout for a whole server": onFastify({ handlerTimeout: shortMs }),
  "Fastify's handlerTimeout, with an error handler and hooks": onFastify(
    { handlerTimeout: shortMs },
    (app) => {
      app.setErrorHandler(async (_error: Loose, _request: Loose, reply: Loose) =>
        reply.code(504).header("X-From", "time-out").send({ late: true }),
      );
      app.addHook("onSend", (_request: Loose, _reply: Loose, payload: Loose, done: Loose) =>
        setImmediate(done, null, payload),
      );
    },
  ),
  "a timer in a hook of Fastify's": onFastify({}, lateHook),
  "a timer on Fastify's raw response": onFastify({}, (app) =>
    app.addHook("onRequest", async (_request: Loose, { raw }: Loose) => {
      setTimeout(() => raw.headersSent || raw.writeHead(503, { "X-From": "time-out" }).end(), shortMs);
    }),
  ),
  "Fastify's handlerTimeout for an operation that owns its work": async ({ service, owned }) => {
    const app: Loose = fastify({ handlerTimeout: shortMs });
    const serve: Loose = fastifyServe(app, service.latchkey, one);
    app.post(
      "/run",
      serve(owned(), () => ({})),
    );
    await app.ready();
    return (req, res) => void app.routing(req, res);
  },

  "connect-timeout on Express 5": onExpress(express, connectTimeout(shortMs as Loose)),
  "connect-timeout on Express 4": onExpress(express4, connectTimeout(shortMs as Loose)),
  "connect-timeout beside middleware that wraps the response": onExpress(
    express,
    connectTimeout(shortMs as Loose),
    (_req: Loose, res: Loose, next: () => void) => {
      const { end, json } = res;
      res.end = (...args: unknown[]) => end.apply(res, args);
      res.json = (body: unknown) => json.call(res, body);
      next();
    },
  ),
  "express-timeout-handler": onExpress(express, expressTimeout.handler({ timeout: shortMs })),
  "a timer on node:http": ({ service, operation, answered }) => {
    const handle = nodeProtect(service.latchkey, one)(operation, async (_req, res) => {
      res.setHeader("X-Before", "handler");
      await answered;
      res.setHeader("Content-Type", "application/json");
      res.end('{"done":true}');
    });
    return (req, res) => {
      setTimeout(() => !res.headersSent && res.writeHead(503, { "X-From": "time-out" }).end(), shortMs);
      void handle(req, res).catch(() => res.destroy());
    };
  },
  "@uswitch/koa-timeout, which throws": (slow) => koaApp(slow, koaTimeout.default(shortMs, { status: 408 })),
  "Koa middleware that answers": (slow) => koaApp(slow, answerLate),
  "hono/timeout": ({ service, operation, answered }) =>
    getRequestListener(
      new Hono().use(honoTimeout(shortMs)).post(
        "/run",
        honoProtect(service.latchkey, one)(operation, async (c) => {
          await answered;
          return c.json({ done: true });
        }),
      ).fetch,
    ),
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const executions: readonly Execution[] = ["lease", "transaction"];
describe.each(executions)("%s", (execution) => {
  test.each(Object.entries(services))("%s", async (name, make) => {
    const service = httpService();
    const { promise: answered, resolve } = deferred<void>();
    const operation = execution === "lease" ? service.lease() : service.operation();
    const owned = () => {
      const run = async () => {
        await answered;
        return { status: 201, headers: { Location: "/1" }, body: { done: true } };
      };
      const writes = execution === "transaction" ? { writes: "none" } : {};
      const options: Loose = { version: "1", execution, run, ...writes };
      return service.latchkey.operation("owned", options);
    };
    const { url, close } = await listen(await make({ service, operation, owned, answered }));
    closing.push(close);
    // Fastify gives its limit up as soon as it has read a body.
    const call = { key: newKey(), body: "", contentType: null };
    const late = await send(url, call);
    expect([408, 503, 504]).toContain(late.status);
    expect([late.header("x-before"), late.header("x-before-raw"), late.header("location")]).toEqual([
      null,
      null,
      null,
    ]);
    resolve();
    await until(async () => (await send(url, call)).header("idempotent-replayed") === "true", {
      what: "the retry gets the handler's answer",
    });
    const retry = await send(url, call);
    expect([retry.json(), retry.header("x-from")]).toEqual([{ done: true }, null]);
    expect([retry.status, retry.header("location")]).toEqual(
      name.includes("Fastify") ? [201, "/1"] : [200, null],
    );
    expect(service.reported()).toEqual([]);
  });
});
