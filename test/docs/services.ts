/** One service for each adapter, whose handler does what a row of the documentation says. */
import "reflect-metadata";
import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { Controller, Module, Post, Req, Res, type Type, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import express, { type ErrorRequestHandler, type Response as ExpressResponse, type Request } from "express";
import fastify, { type FastifyReply, type FastifyRequest } from "fastify";
import { type Context, Hono } from "hono";
import Koa, { type Context as KoaContext } from "koa";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { fetchProtect } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import type { Adapter, ObservedRow } from "../../scripts/support/captured.ts";
import type { HttpService } from "../support/http-service.ts";
import { fastifyHandlers, fetchHandlers, honoHandlers, koaHandlers, nodeHandlers } from "./handlers.ts";

/** What a service is made of. */
interface Parts {
  readonly service: HttpService;
  readonly row: ObservedRow;
  /** Called at the start of each run of the handler. */
  readonly ran: () => void;
  /** The value of the header that middleware before the handler sets on each request. */
  readonly nextRequest: () => string;
}

type MakeListener = (parts: Parts) => RequestListener | null | Promise<RequestListener | null>;

const single = { singleTenant: true } as const;
const limit = { transactionLimitMs: 300 };

function onExpress({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = nodeHandlers[row];
  if (handle === null) return null;
  const protect = expressProtect(service.latchkey, single);
  const app = express().use((_req, res, next) => {
    res.set("X-Request", nextRequest());
    next();
  });
  const handler = protect(service.operation(limit), (req: Request, res: ExpressResponse) => {
    ran();
    return handle(req, res);
  });
  const answerFailure: ErrorRequestHandler = (_error, _req, res, _next) => void res.status(500).end("failed");
  return app.post("/run", handler).use(answerFailure);
}

async function onFastify({ service, row, ran, nextRequest }: Parts): Promise<RequestListener | null> {
  const handle = fastifyHandlers[row];
  if (handle === null) return null;
  const app = fastify();
  app.addHook("onRequest", async (_request, reply) => void reply.header("X-Request", nextRequest()));
  const protect = fastifyProtect(app, service.latchkey, single);
  const handler = protect(service.operation(limit), (request: FastifyRequest, reply: FastifyReply) => {
    ran();
    return handle(request, reply);
  });
  app.post("/run", handler);
  await app.ready();
  return app.routing;
}

function onHono({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = honoHandlers[row];
  if (handle === null) return null;
  const protect = honoProtect(service.latchkey, single);
  const app = new Hono().onError((_error, c) => c.text("failed", 500));
  app.use(async (c, next) => {
    c.header("X-Request", nextRequest());
    await next();
  });
  const handler = protect(service.operation(limit), async (c: Context) => {
    ran();
    return handle(c);
  });
  app.post("/run", handler);
  return getRequestListener(app.fetch);
}

function onKoa({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = koaHandlers[row];
  if (handle === null) return null;
  const protect = koaProtect(service.latchkey, single);
  const app = new Koa();
  app.silent = true;
  app.use((ctx, next) => {
    ctx.set("X-Request", nextRequest());
    return next();
  });
  app.use(
    protect(service.operation(limit), async (ctx: KoaContext) => {
      ran();
      await handle(ctx);
    }),
  );
  return app.callback();
}

function onNode({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = nodeHandlers[row];
  if (handle === null) return null;
  const protect = nodeProtect(service.latchkey, single);
  const handler = protect(service.operation(limit), (req, res) => {
    ran();
    return handle(req, res);
  });
  return (req, res) => {
    res.setHeader("X-Request", nextRequest());
    handler(req, res).catch(() => res.writeHead(500).end("failed"));
  };
}

function onFetch({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = fetchHandlers[row];
  if (handle === null) return null;
  const protect = fetchProtect(service.latchkey, single);
  const handler = protect(service.operation(limit), async () => {
    ran();
    return handle();
  });
  return getRequestListener(async (request) => {
    const response = await handler(request).catch(() => new Response("failed", { status: 500 }));
    response.headers.set("X-Request", nextRequest());
    return response;
  });
}

/** Decorators are called as functions: Node runs no files that have them. */
function nestModule({ service, ran }: Parts, handle: (req: never, res: never) => unknown): Type {
  const protect = nestProtect(service.latchkey, single);
  class Routes {
    run(req: never, res: never): unknown {
      ran();
      return handle(req, res);
    }
  }
  const { prototype } = Routes;
  Req()(prototype, "run", 0);
  Res()(prototype, "run", 1);
  const method = Object.getOwnPropertyDescriptor(prototype, "run") ?? {};
  UseInterceptors(protect(service.operation(limit)))(prototype, "run", method);
  Post("/run")(prototype, "run", method);
  Controller()(Routes);
  class App {}
  Module({ controllers: [Routes] })(App);
  return App;
}

const nestOptions = { rawBody: true, logger: false, abortOnError: false } as const;

async function onNestExpress(parts: Parts): Promise<RequestListener | null> {
  const handle = nodeHandlers[parts.row];
  if (handle === null) return null;
  const module = nestModule(parts, handle);
  const app = await NestFactory.create(module, new ExpressAdapter(), nestOptions);
  app.use((_req: unknown, res: ExpressResponse, next: () => void) => {
    res.set("X-Request", parts.nextRequest());
    next();
  });
  await app.init();
  return app.getHttpAdapter().getInstance();
}

async function onNestFastify(parts: Parts): Promise<RequestListener | null> {
  const handle = fastifyHandlers[parts.row];
  if (handle === null) return null;
  const adapter = new FastifyAdapter();
  const app = await NestFactory.create<NestFastifyApplication>(
    nestModule(parts, handle),
    adapter,
    nestOptions,
  );
  const instance = app.getHttpAdapter().getInstance();
  instance.addHook("onRequest", async (_request, reply) => {
    reply.header("X-Request", parts.nextRequest());
  });
  await app.init();
  await instance.ready();
  return instance.routing;
}

export const services: Readonly<Record<Adapter, MakeListener>> = {
  express: onExpress,
  fastify: onFastify,
  hono: onHono,
  koa: onKoa,
  "nest on Express": onNestExpress,
  "nest on Fastify": onNestFastify,
  node: onNode,
  fetch: onFetch,
};
