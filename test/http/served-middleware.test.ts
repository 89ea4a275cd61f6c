/** Middleware around served operations: what it sets is on every answer, and what it is thrown it answers. */
import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import express, { type ErrorRequestHandler } from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import Koa from "koa";
import { afterEach, describe, expect, test } from "vitest";
import { expressServe } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyServe } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoServe } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaServe } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nodeServe } from "../../packages/latchkey/src/http/node.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

const single = { singleTenant: true } as const;

function service() {
  const { latchkey } = httpService();
  const run = async (input: { readonly amount: number }) => ({ status: 201, body: input });
  return { latchkey, operation: latchkey.operation("charge", { execution: "lease", version: "1", run }) };
}

function amountIn(body: unknown): number {
  const { amount } = body as { amount?: number };
  if (amount === 422) throw Object.assign(new Error("no such amount"), { status: 422, statusCode: 422 });
  return Number(amount);
}

/** Services whose middleware numbers the requests. */
const services: Record<string, () => RequestListener | Promise<RequestListener>> = {
  Express() {
    const { latchkey, operation } = service();
    const serve = expressServe(latchkey, single);
    let requests = 0;
    const app = express().use((_req, res, next) => {
      res.set("X-Request", String(++requests));
      next();
    });
    app.post(
      "/run",
      serve(operation, (req) => ({ amount: amountIn(req.body) })),
    );
    const answer: ErrorRequestHandler = (error, _req, res, _next) => {
      res.status(error.status ?? 500).end("failed");
    };
    return app.use(answer);
  },
  async Fastify() {
    const { latchkey, operation } = service();
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
  Hono() {
    const { latchkey, operation } = service();
    const serve = honoServe(latchkey, single);
    let requests = 0;
    const app = new Hono().use(async (c, next) => {
      c.header("X-Request", String(++requests));
      await next();
    });
    app.onError((error, c) => (error instanceof HTTPException ? error.getResponse() : c.text("failed", 500)));
    app.post(
      "/run",
      serve(operation, async (c) => {
        const { amount } = await c.req.json();
        c.header("X-Half", "done");
        if (amount === 422) throw new HTTPException(422);
        return { amount };
      }),
    );
    return getRequestListener(app.fetch);
  },
  Koa() {
    const { latchkey, operation } = service();
    const serve = koaServe(latchkey, single);
    let requests = 0;
    const app = new Koa();
    app.silent = true;
    app.use(async (ctx, next) => {
      try {
        await next();
      } catch (error) {
        ctx.status = (error as { status?: number }).status ?? 500;
      }
      ctx.set("X-Request", String(++requests));
    });
    app.use(
      serve(operation, (ctx) => {
        if (ctx.request.body.amount === 422) ctx.throw(422);
        return { amount: ctx.request.body.amount };
      }),
    );
    return app.callback();
  },
  "node:http"() {
    const { latchkey, operation } = service();
    const serve = nodeServe(latchkey, single);
    const handle = serve(operation, (_req, { body }) => ({ amount: amountIn(JSON.parse(String(body))) }));
    let requests = 0;
    return (req, res) => {
      res.setHeader("X-Request", String(++requests));
      handle(req, res).catch((error) => res.writeHead(error.status ?? 500).end());
    };
  },
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(listener: RequestListener) {
  const { url, close } = await listen(listener);
  closing.push(close);
  return (key: string, body: string) => send(url, { key, body });
}

describe.each(Object.entries(services))("%s", (_name, makeListener) => {
  test("what middleware sets is on first answers, replays and problems, each time anew", async () => {
    const call = await start(await makeListener());
    const key = newKey();
    const answers = [
      await call(key, '{"amount":1}'),
      await call(key, '{"amount":1}'),
      await call(key, '{"amount":2}'),
    ];
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 422]);
    expect(answers.map((answer) => answer.header("x-request"))).toEqual(["1", "2", "3"]);
    expect(answers.map((answer) => answer.header("idempotent-replayed"))).toEqual([null, "true", null]);
    expect(answers[1]?.body).toEqual(answers[0]?.body);
    expect(answers[0]?.header("content-type")).toBe("application/json");
  });

  test("a refusal that the route throws is the framework's, and the key stays unused", async () => {
    const call = await start(await makeListener());
    const key = newKey();
    const refused = await call(key, '{"amount":422}');
    expect([refused.status, refused.header("x-half")]).toEqual([422, null]);
    expect(refused.header("content-type")).not.toBe("application/problem+json");
    const mended = await call(key, '{"amount":1}');
    expect([mended.status, mended.header("idempotent-replayed")]).toEqual([201, null]);
  });
});

test("hooks of Fastify act on every answer of a served operation, wherever they were added", async () => {
  const { latchkey, operation } = service();
  const app = fastify();
  const shout = async (_request: unknown, _reply: unknown, payload: unknown) => `${String(payload)}!`;
  app.addHook("onSend", shout);
  const serve = fastifyServe(app, latchkey, single);
  app.post(
    "/run",
    serve(operation, (request) => ({ amount: amountIn(request.body) })),
  );
  app.addHook("onSend", shout);
  await app.ready();
  const call = await start(app.routing);
  const key = newKey();
  for (const replayed of [null, "true"]) {
    const answer = await call(key, '{"amount":1}');
    expect([String(answer.body), answer.header("idempotent-replayed")]).toEqual(['{"amount":1}!!', replayed]);
  }
});
