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
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";
import { type Listening, listen } from "../support/listen.ts";

const empty = { "/created": 201, "/ok": 200, "/none": 204 } as const;
const location = "/orders/1";
const one = { singleTenant: true } as const;

/** Apps that answer each path of `empty` with its status alone, and the same below `/plain` without Latchkey. */
const apps: Readonly<Record<string, () => Promise<RequestListener>>> = {
  async express() {
    const { latchkey, lease } = httpService();
    const protect = expressProtect(latchkey, one);
    const app = express().use(compression({ threshold: 0 }));
    const operation = lease({ keyScope: "path" });
    for (const [path, status] of Object.entries(empty)) {
      const answer = (res: express.Response) => void res.status(status).location(location).end();
      app.post(`/plain${path}`, (_req, res) => answer(res));
      app.post(
        path,
        protect(operation, (_req, res) => answer(res as express.Response)),
      );
    }
    return app;
  },
  async fastify() {
    const { latchkey, lease } = httpService();
    const app = fastify();
    const protect = fastifyProtect(app, latchkey, one);
    await app.register(fastifyEtag);
    await app.register(fastifyCompress, { threshold: 0 });
    const operation = lease({ keyScope: "path" });
    for (const [path, status] of Object.entries(empty)) {
      app.post(`/plain${path}`, (_request, reply) => reply.code(status).header("location", location).send());
      app.post(
        path,
        protect(operation, (_request, reply) => reply.code(status).header("location", location).send()),
      );
    }
    await app.ready();
    return (req, res) => void app.routing(req, res);
  },
  async koa() {
    const { latchkey, lease } = httpService();
    const answer = (ctx: {
      status: number;
      body: unknown;
      path?: unknown;
      set(n: string, v: string): void;
    }) => {
      ctx.body = null;
      ctx.status = Reflect.get(empty, String(ctx.path).replace("/plain", ""));
      ctx.set("location", location);
    };
    const handle = koaProtect(latchkey, one)(lease({ keyScope: "path" }), (ctx) => answer(ctx as never));
    const app = new Koa()
      .use(conditional())
      .use(etag())
      .use(compress({ threshold: 0 }));
    app.use((ctx) => (ctx.path.startsWith("/plain") ? answer(ctx) : handle(ctx as never)));
    return app.callback();
  },
  async hono() {
    const { latchkey, lease } = httpService();
    const protect = honoProtect(latchkey, one);
    const app = new Hono().use(honoEtag(), honoCompress({ threshold: 0 }));
    const operation = lease({ keyScope: "path" });
    for (const [path, status] of Object.entries(empty)) {
      const answer = () => new Response(null, { status, headers: { location } });
      app.post(`/plain${path}`, answer);
      app.post(path, protect(operation, answer));
    }
    return getRequestListener(app.fetch);
  },
};

const unlike: ReadonlySet<string> = new Set([
  "date",
  "connection",
  "keep-alive",
  "transfer-encoding",
  "idempotent-replayed",
]);

describe.each(Object.entries(apps))("%s", (_name, make) => {
  let service: Listening;
  beforeAll(async () => {
    service = await listen(await make());
  });
  afterAll(() => service.close());

  test.each(Object.keys(empty))("an empty answer, %s", async (path) => {
    const key = newKey();
    const call = async (target: string) => {
      const answer = await send(service.url, { target, key, headers: [["Accept-Encoding", "gzip"]] });
      const lines = answer.lines.filter(([name]) => !unlike.has(name)).map((line) => line.join(": "));
      return { status: answer.status, body: answer.body.toString(), lines: lines.sort() };
    };
    const plain = await call(`/plain${path}`);
    // Latchkey counts what a server would have sent in chunks.
    const counted = (answer: typeof plain) => ({
      ...answer,
      lines: answer.lines.filter((line) => line !== "content-length: 0"),
    });
    const first = await call(path);
    expect(counted(first)).toEqual(counted(plain));
    expect(await call(path)).toEqual(first);
  });
});
