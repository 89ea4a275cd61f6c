/** Routers and apps inside others: the path that counts is the one that the client sent. */
import "reflect-metadata";
import { createServer, type RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import Router from "@koa/router";
import { Controller, HttpCode, Module, Post, UseInterceptors } from "@nestjs/common";
import { NestFactory, RouterModule } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import express from "express";
import express4 from "express4";
import fastify from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import mount from "koa-mount";
import { expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { fetchProtect } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

const one = { singleTenant: true } as const;
type Service = ReturnType<typeof httpService>;

const expressRoute = ({ latchkey, lease }: Service) =>
  expressProtect(latchkey, one)(lease(), (req, res) => void res.end(req.originalUrl));
const koaRoute = ({ latchkey, lease }: Service) =>
  koaProtect(latchkey, one)(lease(), (ctx) => {
    ctx.body = "koa";
  });
const honoApp = ({ latchkey, lease }: Service) =>
  new Hono().post(
    "/pay",
    honoProtect(latchkey, one)(lease(), (c) => c.text("hono")),
  );

async function onNest({ latchkey, lease }: Service, by: "router" | "parameter", fastified = false) {
  const controller = () => {
    class Routes {
      pay(): string {
        return "nest";
      }
    }
    const { prototype } = Routes;
    const method = Object.getOwnPropertyDescriptor(prototype, "pay") ?? {};
    HttpCode(200)(prototype, "pay", method);
    UseInterceptors(protect)(prototype, "pay", method);
    Post("pay")(prototype, "pay", method);
    Controller(by === "parameter" ? ":region" : "")(Routes);
    return Routes;
  };
  const protect = nestProtect(latchkey, one)(lease()) as never;
  const regions = by === "router" ? ["eu", "us"] : [""];
  const modules = regions.map((path) => {
    class Region {}
    Module({ controllers: [controller()] })(Region);
    return { path, module: Region };
  });
  class Root {}
  const routes = by === "router" ? [RouterModule.register(modules)] : [];
  Module({ imports: [...modules.map(({ module }) => module), ...routes] })(Root);
  const adapter = fastified ? new FastifyAdapter() : new ExpressAdapter();
  const app = await NestFactory.create(Root, adapter, { rawBody: true, logger: false });
  await app.init();
  const instance = app.getHttpAdapter().getInstance();
  if (!fastified) return instance as RequestListener;
  await instance.ready();
  return instance.routing as RequestListener;
}

/** Each serves `/eu/pay` and `/us/pay` with one protected route. */
const mounts: Readonly<Record<string, (service: Service) => RequestListener | Promise<RequestListener>>> = {
  "Express 5, a router mounted twice": (service) => {
    const router = express.Router().post("/pay", expressRoute(service));
    return express().use("/eu", router).use("/us", router);
  },
  "Express 5, an app mounted twice": (service) => {
    const app = express().post("/pay", expressRoute(service));
    return express().use("/eu", app).use("/us", app);
  },
  "Express 4, a rewritten url": (service) => {
    const app = express4();
    app.use((req, _res, next) => {
      req.url = "/pay";
      next();
    });
    return app.post("/pay", expressRoute(service));
  },
  "Koa, koa-mount": (service) => {
    const app = new Koa().use(koaRoute(service) as never);
    return new Koa().use(mount("/eu", app)).use(mount("/us", app)).callback();
  },
  "Koa, @koa/router with prefixes": (service) => {
    const inner = new Router().post("/pay", koaRoute(service) as never);
    const outer = new Router().use("/:region", inner.routes());
    return new Koa().use(outer.routes()).callback();
  },
  "Koa inside Express": (service) => {
    const koa = new Koa().use(koaRoute(service) as never).callback();
    const handle = (req: express.Request, res: express.Response) => void koa(req, res);
    return express().use("/eu", handle).use("/us", handle);
  },
  "Hono, mount": (service) => {
    const inner = honoApp(service);
    return getRequestListener(new Hono().mount("/eu", inner.fetch).mount("/us", inner.fetch).fetch);
  },
  "Hono, route": (service) => {
    const inner = honoApp(service);
    return getRequestListener(new Hono().route("/eu", inner).route("/us", inner).fetch);
  },
  "Hono inside Express": (service) => {
    const listener = getRequestListener(honoApp(service).fetch);
    const handle = (req: express.Request, res: express.Response) => void listener(req, res);
    return express().use("/eu", handle).use("/us", handle);
  },
  "Fastify, prefixes": async ({ latchkey, lease }) => {
    const app = fastify();
    const handler = fastifyProtect(app, latchkey, one)(lease(), async () => "fastify");
    for (const prefix of ["/eu", "/us"])
      await app.register(
        (inner, _options, done) => {
          inner.post("/pay", handler);
          done();
        },
        { prefix },
      );
    await app.ready();
    return (req, res) => void app.routing(req, res);
  },
  "Fastify, rewriteUrl": async ({ latchkey, lease }) => {
    const app = fastify({
      rewriteUrl: () => "/pay",
      // `routing` passes rewriting by; a server that the app has not made gets the handler itself.
      serverFactory: (handler) => createServer((req, res) => handler(req, res)),
    });
    app.post(
      "/pay",
      fastifyProtect(app, latchkey, one)(lease(), async () => "fastify"),
    );
    await app.ready();
    return (req, res) => void app.server.emit("request", req, res);
  },
  "Nest, one module under two paths of RouterModule": (service) => onNest(service, "router"),
  "Nest with Fastify, one module under two paths of RouterModule": (service) =>
    onNest(service, "router", true),
  "Nest, a path with a parameter": (service) => onNest(service, "parameter"),
  "Nest with Fastify, a path with a parameter": (service) => onNest(service, "parameter", true),
  "node:http inside Express": ({ latchkey, lease }) => {
    const handle = nodeProtect(latchkey, one)(lease(), (_req, res) => void res.end("node"));
    return express().use("/eu", handle).use("/us", handle);
  },
  "Fetch, an app below a base path": ({ latchkey, lease }) =>
    getRequestListener(fetchProtect(latchkey, one)(lease(), () => new Response("fetch"))),
};

test.each(Object.entries(mounts))("%s", async (_name, make) => {
  const { url, close } = await listen(await make(httpService()));
  try {
    const key = newKey();
    const call = async (target: string) => {
      const { status, header } = await send(url, { target, key });
      return [status, header("idempotent-replayed")];
    };
    expect(await call("/eu/pay")).toEqual([200, null]);
    expect(await call("/eu/pay")).toEqual([200, "true"]);
    expect(await call("/us/pay")).toEqual([422, null]);
    expect(await call("/eu/pay?dry=1")).toEqual([422, null]);
  } finally {
    await close();
  }
});
