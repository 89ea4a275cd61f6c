import "reflect-metadata";
import type { RequestListener } from "node:http";
import { Controller, Module, Post, Req, Res, type Type, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import type { Response } from "express";
import { nestProtect } from "../../../../packages/latchkey/src/http/nest/nest.ts";
import { limit, type MakeListener, nodeHandlers, type Parts, single } from "../../../docs/handlers.ts";
import { fastifyHandlers } from "../fastify/documented.ts";

export const services: Readonly<Record<string, MakeListener>> = {
  nest: onNestExpress,
  nestFastify: onNestFastify,
};

const nestOptions = { rawBody: true, logger: false, abortOnError: false } as const;

async function onNestExpress(parts: Parts): Promise<RequestListener | null> {
  const handle = nodeHandlers[parts.row];
  if (handle === null) return null;
  const module = nestModule(parts, handle);
  const app = await NestFactory.create(module, new ExpressAdapter(), nestOptions);
  app.use((_req: unknown, res: Response, next: () => void) => {
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
