/** Answers without a body behind plugins that digest and compress: the first as without Latchkey, the replay the same. */
import type { RequestListener } from "node:http";
import fastifyCompress from "@fastify/compress";
import fastifyEtag from "@fastify/etag";
import { getRequestListener } from "@hono/node-server";
import compression from "compression";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { compress as honoCompress } from "hono/compress";
import { etag as honoEtag } from "hono/etag";
import Koa from "koa";
import compress from "koa-compress";
import conditional from "koa-conditional-get";
import etag from "koa-etag";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expressProtect, expressServe } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect, fastifyServe } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoProtect, honoServe } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect, koaServe } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect, nestServe } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect, nodeServe } from "../../packages/latchkey/src/http/node.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";
import { type Listening, listen } from "../support/listen.ts";
import { isThorough } from "../support/thorough.ts";
import { nestListener, type platforms } from "./nest-routes.ts";

const empty = { "/created": 201, "/ok": 200, "/none": 204 } as const;
const location = "/orders/1";
const one = { singleTenant: true } as const;
/** Framework types of its own kind for requests, which are not looked at here. */
type Loose = ReturnType<JSON["parse"]>;

/** One service, whose operations answer with nothing: by a handler, and by work of their own, whose input is the status. */
function emptyService() {
  const { latchkey, lease } = httpService();
  const owned = latchkey.operation("owned", {
    execution: "lease",
    version: "1",
    keyScope: "path",
    run: async (status: number) => ({ status, headers: { location } }),
  });
  return { latchkey, operation: lease({ keyScope: "path" }), owned };
}

/** The status that a path asks for, whatever stands before it. */
const statusOf = (path: string): number => Reflect.get(empty, path.replace(/^.*\//u, "/"));

async function onNest(platform: keyof typeof platforms, prepare: (app: Loose) => unknown) {
  const { latchkey, operation, owned } = emptyService();
  const answer = (_req: Loose, res: Loose) => void res.header("location", location);
  const routes = Object.entries(empty).flatMap(([path, status]) => [
    { path: `plain${path}`, status, handle: answer, passesOn: true },
    { path, status, handle: answer, passesOn: true, interceptors: [nestProtect(latchkey, one)(operation)] },
    { path: `serve${path}`, interceptors: [nestServe(latchkey, one)(owned)], handle: () => status },
  ]);
  return nestListener(platform, routes, { prepare });
}

/**
 * Apps that answer each path of `empty` with its status alone, the same below `/plain` without Latchkey, and below `/serve` by an
 * operation that owns its work.
 */
const apps: Readonly<Record<string, () => Promise<RequestListener>>> = {
  async express() {
    const { latchkey, operation, owned } = emptyService();
    const protect = expressProtect(latchkey, one);
    const serve = expressServe(latchkey, one);
    const app = express().use(compression({ threshold: 0 }));
    for (const [path, status] of Object.entries(empty)) {
      const answer = (res: express.Response) => void res.status(status).location(location).end();
      app.post(`/plain${path}`, (_req, res) => answer(res));
      app.post(
        path,
        protect(operation, (_req, res) => answer(res as express.Response)),
      );
      app.post(
        `/serve${path}`,
        serve(owned, () => status),
      );
    }
    return app;
  },
  async fastify() {
    const { latchkey, operation, owned } = emptyService();
    const app = fastify();
    const protect = fastifyProtect(app, latchkey, one);
    const serve = fastifyServe(app, latchkey, one);
    await app.register(fastifyEtag);
    await app.register(fastifyCompress, { threshold: 0 });
    for (const [path, status] of Object.entries(empty)) {
      app.post(`/plain${path}`, (_request, reply) => reply.code(status).header("location", location).send());
      app.post(
        path,
        protect(operation, (_request, reply) => reply.code(status).header("location", location).send()),
      );
      app.post(
        `/serve${path}`,
        serve(owned, () => status),
      );
    }
    await app.ready();
    return (req, res) => void app.routing(req, res);
  },
  async koa() {
    const { latchkey, operation, owned } = emptyService();
    const answer = (ctx: {
      status: number;
      body: unknown;
      path?: unknown;
      set(n: string, v: string): void;
    }) => {
      ctx.body = null;
      ctx.status = statusOf(String(ctx.path));
      ctx.set("location", location);
    };
    const handle = koaProtect(latchkey, one)(operation, (ctx) => answer(ctx as never));
    const serve = koaServe(latchkey, one)(owned, ({ originalUrl }) => statusOf(originalUrl));
    const app = new Koa()
      .use(conditional())
      .use(etag())
      .use(compress({ threshold: 0 }));
    app.use((ctx) => {
      if (ctx.path.startsWith("/plain")) return answer(ctx);
      return ctx.path.startsWith("/serve") ? serve(ctx as never) : handle(ctx as never);
    });
    return app.callback();
  },
  async hono() {
    const { latchkey, operation, owned } = emptyService();
    const protect = honoProtect(latchkey, one);
    const serve = honoServe(latchkey, one);
    const app = new Hono().use(honoEtag(), honoCompress({ threshold: 0 }));
    for (const [path, status] of Object.entries(empty)) {
      const answer = () => new Response(null, { status, headers: { location } });
      app.post(`/plain${path}`, answer);
      app.post(path, protect(operation, answer));
      app.post(
        `/serve${path}`,
        serve(owned, () => status),
      );
    }
    return getRequestListener(app.fetch);
  },
  "Nest on Fastify": () =>
    onNest("Fastify", async (app) => {
      await app.register(fastifyEtag);
      await app.register(fastifyCompress, { threshold: 0 });
    }),
};

/** Those that show what others show, too. */
const further: typeof apps = {
  "Nest on Express": () => onNest("Express", (app) => app.use(compression({ threshold: 0 }))),
  async "node:http"() {
    const { latchkey, operation, owned } = emptyService();
    const answer = (req: Loose, res: Loose) => {
      res.statusCode = statusOf(req.url);
      res.setHeader("location", location);
      res.end();
    };
    const protect = nodeProtect(latchkey, one)(operation, answer);
    const serve = nodeServe(latchkey, one)(owned, ({ url = "" }) => statusOf(url));
    const compressed = compression({ threshold: 0 });
    return (req, res) =>
      compressed(req as Loose, res as Loose, () => {
        if (req.url?.startsWith("/plain")) return answer(req, res);
        const handle = req.url?.startsWith("/serve") ? serve : protect;
        handle(req, res).catch(() => res.destroy());
      });
  },
};

const unlike: ReadonlySet<string> = new Set([
  "date",
  "connection",
  "keep-alive",
  "transfer-encoding",
  "idempotent-replayed",
]);

describe.each(Object.entries({ ...apps, ...(isThorough ? further : {}) }))("%s", (name, make) => {
  let service: Listening;
  beforeAll(async () => {
    service = await listen(await make());
  });
  afterAll(() => service.close());

  const kinds = isThorough || name === "fastify" ? ["", "/serve"] : [""];
  const targets = kinds.flatMap((kind) =>
    Object.keys(empty).map((path) => [`${kind}${path}`, path] as const),
  );

  test.each(targets)("an empty answer, %s", async (target, path) => {
    const key = newKey();
    const call = async (asked: string) => {
      const answer = await send(service.url, { target: asked, key, headers: [["Accept-Encoding", "gzip"]] });
      const lines = answer.lines.filter(([name]) => !unlike.has(name)).map((line) => line.join(": "));
      return { status: answer.status, body: answer.body.toString(), lines: lines.sort() };
    };
    const plain = await call(`/plain${path}`);
    // Latchkey counts what a server would have sent in chunks.
    const counted = (answer: typeof plain) => ({
      ...answer,
      lines: answer.lines.filter((line) => line !== "content-length: 0"),
    });
    const first = await call(target);
    expect(counted(first)).toEqual(counted(plain));
    expect(await call(target)).toEqual(first);
  });
});
