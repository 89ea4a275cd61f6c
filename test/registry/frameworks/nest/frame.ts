/** Decorators are called as functions: Node runs no files that have them. */
import "reflect-metadata";
import { Controller, Module, Post, Req, Res, type Type, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter, type NestExpressApplication } from "@nestjs/platform-express";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import type { RequestHandler, Response } from "express";
import type { FastifyInstance, FastifyReply } from "fastify";
import { nestProtect } from "../../../../packages/latchkey/src/http/nest/nest.ts";
import type { NestRequest } from "../../../../packages/latchkey/src/http/nest/nest-types.ts";
import { type Mounting, type Served, withDefaults } from "../../../neighbours/served.ts";
import { operationOf, type World } from "../../../neighbours/world.ts";
import { answerOn } from "../express/frame.ts";
import { statusesOf } from "../fastify/frame.ts";

export interface NestParts<App> {
  readonly app: App;
  readonly world: World;
}

/** How a neighbour gets into a Nest app: around the route, and into the app before it is initialised. */
export interface NestMount<App> {
  /** Decorators of the route's method, outermost first; the last one is Latchkey's. */
  readonly decorate?: (protect: MethodDecorator) => readonly MethodDecorator[];
  readonly setUp?: (parts: NestParts<App>) => Mounting;
  /** The route's handler, for neighbours that make the answer. Default: the world's answer. */
  readonly handle?: (world: World) => Handle;
}

type Handle = (req: never, res: never) => unknown;

const options = { rawBody: true, logger: false, abortOnError: false } as const;

export async function startNestOnExpress(
  mount: NestMount<NestExpressApplication>,
  world: World,
): Promise<Served> {
  const { setUp } = mount;
  const module = moduleOf(world, mount, (res, answer) => answerOn(res as Response, answer));
  const app = await NestFactory.create<NestExpressApplication>(module, new ExpressAdapter(), options);
  const mounted = await setUp?.({ app, world });
  await app.init();
  return closing(app, await withDefaults(mounted, () => app.getHttpAdapter().getInstance()));
}

export async function startNestOnFastify(
  mount: NestMount<NestFastifyApplication>,
  world: World,
): Promise<Served> {
  const { setUp } = mount;
  const module = moduleOf(world, mount, (res, { status, headers, body }) => {
    const reply = (res as FastifyReply).code(status).headers(headers);
    if (body.kind === "json") return reply.send(body.value);
    if (body.kind === "none") return reply.send();
    return reply.type("text/plain").send(body.kind === "text" ? body.text : body.chunks.join(""));
  });
  // As Fastify's own front end: every app has Fastify's logger.
  const adapter = new FastifyAdapter({ logger: { stream: statusesOf(world) } });
  const app = await NestFactory.create<NestFastifyApplication>(module, adapter, options);
  const mounted = await setUp?.({ app, world });
  await app.init();
  const instance = app.getHttpAdapter().getInstance();
  await instance.ready();
  return closing(app, await withDefaults(mounted, () => instance.routing));
}

function closing(app: { close(): Promise<void> }, served: Served): Served {
  return {
    call: served.call,
    async close() {
      await served.close();
      await app.close();
    },
  };
}

type Write = (res: unknown, answer: Awaited<ReturnType<World["run"]>>) => unknown;

function moduleOf(world: World, { decorate, handle }: NestMount<never>, write: Write): Type {
  const own = handle?.(world);
  class Routes {
    async run(req: NestRequest, res: unknown): Promise<void> {
      if (own === undefined) write(res, await world.run(req.body));
      else await own(req as never, res as never);
    }
  }
  const { prototype } = Routes;
  const method = Object.getOwnPropertyDescriptor(prototype, "run") ?? {};
  Req()(prototype, "run", 0);
  Res()(prototype, "run", 1);
  const protect = protectorOf(world);
  const decorators = decorate?.(protect) ?? [protect];
  // As a compiler applies them: the one that is nearest to the method comes first.
  for (const each of [Post("/run"), ...decorators].reverse()) each(prototype, "run", method);
  Controller()(Routes);
  class App {}
  Module({ controllers: [Routes] })(App);
  return App;
}

function protectorOf(world: World): MethodDecorator {
  const { service } = world;
  if (service === null) return () => {};
  const tenant = ({ headers }: NestRequest) => String(headers["x-tenant"]);
  return UseInterceptors(nestProtect(service.latchkey, { tenant })(operationOf(world, service)));
}

/** Middleware of Express on every route. */
export function nestBefore(middleware: () => readonly unknown[]): NestMount<NestExpressApplication> {
  return { setUp: ({ app }) => void app.use(...(middleware() as RequestHandler[])) };
}

/** Plugins of Fastify. */
export function nestFastifyBefore(
  register: (app: FastifyInstance) => unknown,
): NestMount<NestFastifyApplication> {
  return {
    async setUp({ app }) {
      await register(app.getHttpAdapter().getInstance() as unknown as FastifyInstance);
    },
  };
}
