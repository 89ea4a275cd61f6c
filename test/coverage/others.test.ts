/** Fastify, Hono and Koa, and what an audit refuses to say. */
import { getRequestListener } from "@hono/node-server";
import { Router as KoaRouter } from "@koa/router";
import fastify, { type FastifyInstance } from "fastify";
import { type Context, Hono, type Next } from "hono";
import Koa, { type Context as KoaContext, type Next as KoaNext } from "koa";
import { describe, expect, test } from "vitest";
import { fastifyTable, watchFastify } from "../../packages/latchkey/src/http/coverage/fastify-table.ts";
import { fastifyProtect, fastifyServe } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoProtect, honoServe } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect, koaServe } from "../../packages/latchkey/src/http/koa/koa.ts";
import { expectEveryRouteProtected } from "../../packages/latchkey/src/testing/index.ts";
import { audited, expectTruth, openWorld } from "./world.ts";

describe("Fastify", () => {
  test("the audit says what happens to a request that comes twice, in plugins too", async () => {
    const world = openWorld();
    const { latchkey, options, create, serve } = world;
    const app = fastify();
    const answer = async (request: { readonly originalUrl: string }) => {
      world.ran(request.originalUrl);
      return { done: true };
    };
    app.get("/read", answer);
    app.post("/before", answer);
    const protect = fastifyProtect(app, latchkey, options);
    app.post("/payments/:id", protect(create, answer));
    app.post(
      "/served",
      fastifyServe(app, latchkey, options)(serve, ({ originalUrl }) => ({ route: originalUrl })),
    );
    app.all("/any", protect(create, answer));
    app.route({ method: ["PUT", "DELETE"], url: "/two", handler: answer });
    app.register(
      (plugin, _options, done) => {
        plugin.post("/", protect(create, answer));
        plugin.patch("/:id", answer);
        done();
      },
      { prefix: "/orders" },
    );
    // What a plugin puts around a handler may answer without it.
    app.register((plugin, _options, done) => {
      plugin.addHook("onRoute", (route) => {
        route.handler = answer;
      });
      plugin.post("/replaced", protect(create, answer));
      done();
    });
    await app.ready();
    await expectTruth(world, app, (req, res) => app.routing(req, res), [
      { route: "POST /before", by: null },
      { route: "POST /payments/:id", url: "/payments/1", by: "orders.create" },
      { route: "POST /served", by: "orders.serve" },
      { route: "ALL /any", by: "orders.create" },
      { route: "PUT /two", by: null },
      { route: "DELETE /two", by: null },
      { route: "POST /orders/", by: "orders.create" },
      { route: "PATCH /orders/:id", url: "/orders/1", by: null },
      { route: "POST /replaced", by: null },
    ]);
    await app.close();
  });

  test("an app that is not ready is refused, and one of a plugin's instances stands for the whole", async () => {
    const app = fastify();
    let inner: FastifyInstance | null = null;
    app.register((plugin, _options, done) => {
      inner = plugin;
      plugin.post("/", async () => null);
      done();
    });
    expect(() => audited(app)).toThrow("await app.ready()");
    await app.ready();
    expect(audited(inner)).toEqual([{ route: "POST /", by: null }]);
    await app.close();
  });

  test("an app that was made before anything watched is refused, as its routes are not known", async () => {
    const app = Object.create(null, {
      addHook: { value: () => {} },
      printRoutes: { value: () => "" },
    });
    expect(() => fastifyTable(app)).toThrow("created before `latchkey/testing` was imported");
    watchFastify();
  });
});

test("Hono: the audit says what happens to a request that comes twice", async () => {
  const world = openWorld();
  const { latchkey, options, create, serve } = world;
  const protect = honoProtect(latchkey, options);
  const answer = (c: Context) => {
    world.ran(c.req.path);
    return c.json({ done: true });
  };
  const handOn = (_c: Context, next: Next) => next();
  const app = new Hono().basePath("/v1");
  app.use("*", handOn);
  app.get("/read", answer);
  app.post("/payments/:id", handOn, protect(create, answer));
  app.post(
    "/served",
    honoServe(latchkey, options)(serve, (c) => ({ route: c.req.path })),
  );
  app.post("/answered", answer);
  app.post("/answered", protect(create, answer));
  app.on(["PUT", "DELETE"], "/two", answer);
  app.all("/any", answer);
  app.all("/any-protected", protect(create, answer));
  const inner = new Hono();
  inner.onError((_, c) => c.text("inner", 500));
  inner.post("/", protect(create, answer));
  inner.patch("/:id", answer);
  app.route("/orders", inner);
  await expectTruth(world, app, getRequestListener(app.fetch), [
    { route: "POST /v1/payments/:id", url: "/v1/payments/1", by: "orders.create" },
    { route: "POST /v1/served", by: "orders.serve" },
    { route: "POST /v1/answered", by: null },
    { route: "PUT /v1/two", by: null },
    { route: "DELETE /v1/two", by: null },
    { route: "ALL /v1/any", by: null },
    { route: "ALL /v1/any-protected", by: "orders.create" },
    { route: "POST /v1/orders", by: "orders.create" },
    { route: "PATCH /v1/orders/:id", url: "/v1/orders/1", by: null },
  ]);
});

test("Koa: the audit says what happens to a request that comes twice", async () => {
  const world = openWorld();
  const { latchkey, options, create, serve } = world;
  const protect = koaProtect(latchkey, options);
  const answer = (ctx: KoaContext) => {
    world.ran(ctx.path);
    ctx.body = { done: true };
  };
  const handOn = (_ctx: KoaContext, next: KoaNext) => next();
  const router = new KoaRouter({ prefix: "/v1" });
  router.use(handOn);
  router.get("/read", answer);
  router.post("/payments/:id", handOn, protect(create, answer));
  router.post(
    "/served",
    koaServe(latchkey, options)(serve, (ctx) => ({ route: ctx.path })),
  );
  router.post("/answered", answer);
  router.post("/answered", protect(create, answer));
  router.post("/handed", handOn);
  router.post("/handed", protect(create, answer));
  router.all("/any", answer);
  const orders = new KoaRouter();
  orders.post("/", protect(create, answer));
  orders.patch("/:id", answer);
  router.use("/orders", orders.routes());
  const app = new Koa();
  app.use(handOn).use(router.routes()).use(router.allowedMethods());
  const expected = [
    { route: "POST /v1/payments/:id", url: "/v1/payments/1", by: "orders.create" },
    { route: "POST /v1/served", by: "orders.serve" },
    { route: "POST /v1/answered", by: null },
    { route: "POST /v1/handed", by: "orders.create" },
    { route: "ALL /v1/any", by: null },
    { route: "POST /v1/orders", by: "orders.create" },
    { route: "PATCH /v1/orders/:id", url: "/v1/orders/1", by: null },
  ];
  expect(audited(router)).toEqual(audited(app));
  await expectTruth(world, app, app.callback(), expected);
});

describe("expectEveryRouteProtected", () => {
  const { latchkey, options, create } = openWorld();
  const app = new Hono();
  app.post(
    "/orders",
    honoProtect(latchkey, options)(create, (c) => c.json(null)),
  );
  app.post("/login", (c) => c.json(null));
  app.delete("/orders/:id", (c) => c.json(null));

  test("throws with a list", () => {
    expect(() => expectEveryRouteProtected(app)).toThrow(
      "2 of 3 state-changing routes are not protected:\n  POST /login\n  DELETE /orders/:id",
    );
  });

  test.each([[["POST /login", "DELETE *"]], [["/login", "delete /orders/*"]], [["/*"]], [["*"]]])(
    "is content with the exceptions %j",
    (except) => {
      expectEveryRouteProtected(app, { except });
    },
  );

  test.each([
    [["POST /login"], "1 of 3"],
    [["POST /logi", "DELETE *"], "1 of 3"],
    [["PUT /login", "DELETE *"], "POST /login"],
    [["*", "POST /orders"], 'The exception "POST /orders" matches no unprotected route.'],
    [["*", "PATCH *"], 'The exception "PATCH *" matches no unprotected route.'],
    [["login"], 'An exception has the form "POST /login"'],
  ])("is not with %j", (except, message) => {
    expect(() => expectEveryRouteProtected(app, { except })).toThrow(message);
  });

  test("an app without such routes, something that is no app, and options that do not exist are refused", () => {
    expect(() => expectEveryRouteProtected(new Hono())).toThrow("no state-changing route");
    for (const other of [null, {}, () => {}, "app"]) {
      expect(() => expectEveryRouteProtected(other)).toThrow(
        "Not an app of Express, Fastify, Hono, Koa or Nest",
      );
    }
    const options = { except: [], exept: ["*"] };
    expect(() => expectEveryRouteProtected(app, options)).toThrow("exept");
  });
});
