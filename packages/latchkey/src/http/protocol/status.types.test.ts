/** The status resource fits every framework's routes. */
import { createServer } from "node:http";
import { UseInterceptors } from "@nestjs/common";
import express, { type Request as ExpressRequest } from "express";
import fastify, { type FastifyRequest } from "fastify";
import { Hono, type Context as HonoContext } from "hono";
import Koa, { type Context as KoaContext } from "koa";
import { expectTypeOf, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { memoryStore } from "../../stores/memory.ts";
import { expressStatus } from "../express/express.ts";
import { fastifyStatus } from "../fastify/fastify.ts";
import { fetchStatus } from "../fetch/fetch.ts";
import { honoStatus } from "../hono/hono.ts";
import { koaStatus } from "../koa/koa.ts";
import { nestStatus } from "../nest/nest.ts";
import { nodeStatus } from "../node.ts";

const latchkey = createLatchkey({ store: memoryStore() });
const options = { singleTenant: true } as const;

test("Express: a handler, annotated and not", () => {
  const annotated = expressStatus(latchkey, { tenant: (req: ExpressRequest) => req.get("x-tenant") });
  const app = express().get("/operations/:id", annotated);
  app.get<{ id: string }>("/others/:id", expressStatus(latchkey, { tenant: (req) => req.get("x-tenant") }));
});

test("Fastify: a route's handler, annotated and not", () => {
  const annotated = fastifyStatus(latchkey, { tenant: (request: FastifyRequest) => request.hostname });
  const app = fastify();
  app.get("/operations/:id", annotated);
  app.get(
    "/others/:id",
    { schema: { params: { type: "object" } } },
    fastifyStatus(latchkey, { tenant: ({ headers }) => String(headers["x-tenant"]) }),
  );
});

test("Hono: a handler, annotated and not", () => {
  interface Env {
    Variables: { accountId: string };
  }
  const annotated = honoStatus(latchkey, { tenant: (c: HonoContext<Env>) => c.get("accountId") });
  new Hono<Env>().get("/operations/:id", annotated);
  new Hono().get("/operations/:id", honoStatus(latchkey, options));
});

test("Koa: middleware, annotated and not", () => {
  new Koa().use(koaStatus(latchkey, { tenant: (ctx: KoaContext) => ctx.get("x-tenant") }));
  new Koa().use(koaStatus(latchkey, { tenant: (ctx) => ctx.get("x-tenant") }));
});

test("node:http: a listener", () => {
  createServer(nodeStatus(latchkey, options));
});

test("Fetch: a handler, with whatever else its platform passes", () => {
  const handler = fetchStatus(latchkey, { tenant: ({ headers }) => headers.get("x-tenant") });
  expectTypeOf(handler).toExtend<(request: Request, context: { params: unknown }) => Promise<Response>>();
});

test("Nest: an interceptor", () => {
  expectTypeOf(UseInterceptors(nestStatus(latchkey, options))).toExtend<MethodDecorator>();
});

test("the tenant has no default", () => {
  // @ts-expect-error neither `tenant` nor `singleTenant`
  const refused = () => expressStatus(latchkey, {});
  expectTypeOf(refused).toBeFunction();
});
