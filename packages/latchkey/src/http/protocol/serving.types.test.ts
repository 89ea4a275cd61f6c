/** Parameters and results of `serve(operation, toInput)` on every framework. */
import { createServer } from "node:http";
import { UseInterceptors } from "@nestjs/common";
import express, { type Request as ExpressRequest } from "express";
import fastify, { type FastifyRequest } from "fastify";
import { Hono, type Context as HonoContext } from "hono";
import Koa, { type Context as KoaContext } from "koa";
import { expect, expectTypeOf, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import type { InputOf } from "../../operations/owned-operation.ts";
import { memoryStore } from "../../stores/memory.ts";
import { expressServe } from "../express/express.ts";
import { fastifyServe } from "../fastify/fastify.ts";
import { fetchServe } from "../fetch/fetch.ts";
import { honoServe } from "../hono/hono.ts";
import { koaServe } from "../koa/koa.ts";
import { nestServe } from "../nest/nest.ts";
import { nodeServe } from "../node.ts";

interface Charge {
  readonly account: string;
  readonly amount: number;
}

const latchkey = createLatchkey({ store: memoryStore() });
const leased = latchkey.operation("types.lease", {
  execution: "lease",
  version: "1",
  run: async (input: Charge) => ({ body: input.amount }),
});
const transactional = latchkey.operation("types.transaction", {
  execution: "transaction",
  version: "1",
  run: async (input: Charge) => ({ body: input.amount }),
});
const bare = latchkey.operation("types.bare", { execution: "lease" });
const options = { singleTenant: true } as const;
const account = "a";

test("an operation has the type of its input", () => {
  expectTypeOf<InputOf<typeof leased>>().toEqualTypeOf<Charge>();
  expectTypeOf<InputOf<typeof transactional>>().toEqualTypeOf<Charge>();
});

test("Express: an ordinary handler, and an input that fits", () => {
  const serve = expressServe(latchkey, { tenant: (req: ExpressRequest) => req.get("x-tenant") });
  const app = express();
  app.post(
    "/leased",
    serve(leased, (req) => {
      expectTypeOf(req).toEqualTypeOf<ExpressRequest>();
      return { account, amount: Number(req.body.amount) };
    }),
  );
  app.post(
    "/charges/:account",
    serve(transactional, (req: ExpressRequest<{ account: string }>) => ({
      account: req.params.account,
      amount: 1,
    })),
  );
  // @ts-expect-error an amount is a number
  serve(leased, () => ({ account, amount: "1" }));
  // @ts-expect-error an account is missing
  serve(leased, () => ({ amount: 1 }));
  // @ts-expect-error an operation without `run` has nothing to serve
  expect(() => serve(bare, () => ({ account, amount: 1 }))).toThrow(TypeError);
});

test("Fastify: a route's handler, and an input that fits", () => {
  const app = fastify();
  const serve = fastifyServe(app, latchkey, { tenant: (request: FastifyRequest) => request.hostname });
  const handler = serve(leased, async (request) => {
    expectTypeOf(request).toEqualTypeOf<FastifyRequest>();
    return { account, amount: 1 };
  });
  app.post("/charges", handler);
  // @ts-expect-error an amount is a number, also in a promise
  serve(leased, async () => ({ account, amount: "1" }));
});

test("Hono: a handler, and an input that fits", () => {
  const serve = honoServe(latchkey, { tenant: (c: HonoContext) => c.req.header("x-tenant") });
  new Hono().post(
    "/charges",
    serve(leased, async (c) => {
      expectTypeOf(c).toEqualTypeOf<HonoContext>();
      return { account, amount: Number((await c.req.json()).amount) };
    }),
  );
  // @ts-expect-error an account is missing
  serve(leased, async () => ({ amount: 1 }));
});

test("Koa: middleware, and an input that fits", () => {
  const serve = koaServe(latchkey, { tenant: (ctx: KoaContext) => ctx.get("x-tenant") });
  new Koa().use(serve(transactional, (ctx: KoaContext) => ({ account: ctx.get("x-account"), amount: 1 })));
  // @ts-expect-error an account is missing
  serve(leased, () => ({ amount: 1 }));
});

test("node:http: a listener with the body's bytes, and an input that fits", () => {
  const serve = nodeServe(latchkey, options);
  createServer(
    serve(leased, (_req, { body }) => {
      expectTypeOf(body).toEqualTypeOf<Buffer>();
      return { account, amount: body.byteLength };
    }),
  );
  // @ts-expect-error an account is missing
  serve(leased, () => ({ amount: 1 }));
});

test("Fetch: a handler with what its platform passes, and an input that fits", () => {
  const serve = fetchServe(latchkey, options);
  const handler = serve(leased, async (request) => ({
    account,
    amount: (await request.text()).length,
  }));
  expectTypeOf(handler).toEqualTypeOf<(request: Request) => Promise<Response>>();
  const routed = serve(leased, (_request, _context, { params }: { params: { account: string } }) => ({
    account: params.account,
    amount: 1,
  }));
  expectTypeOf(routed).parameters.toEqualTypeOf<[Request, { params: { account: string } }]>();
  // @ts-expect-error an account is missing
  serve(leased, async () => ({ amount: 1 }));
});

test("Nest: an interceptor for a method that is annotated with what the operation takes", () => {
  const serve = nestServe(latchkey, options);
  expectTypeOf(UseInterceptors(serve(leased), serve(transactional))).toExtend<MethodDecorator>();
  // @ts-expect-error an operation without `run` has nothing to serve
  expect(() => serve(bare)).toThrow(TypeError);
  class Routes {
    charge(): InputOf<typeof leased> {
      // @ts-expect-error an account is missing
      return { amount: 1 };
    }
  }
  expectTypeOf<Routes["charge"]>().returns.toEqualTypeOf<Charge>();
});
