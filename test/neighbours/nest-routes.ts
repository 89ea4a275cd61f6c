/** Routes of Nest without decorators' syntax, on both of its platforms. */
import "reflect-metadata";
import type { RequestListener } from "node:http";
import { Controller, HttpCode, Module, Post, Req, Res, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";

/** Nest's own, without its types: decorators and platforms are typed for classes that are written out. */
type Loose = ReturnType<JSON["parse"]>;

export const platforms = {
  Express: () => new ExpressAdapter(),
  Fastify: () => new FastifyAdapter(),
} as const;

export interface NestRoute {
  readonly path: string;
  readonly status?: number;
  readonly interceptors?: readonly unknown[];
  /** Is given the request. */
  readonly handle: (req: Loose, res: Loose) => unknown;
  /** Whether the handler is given the response, too, and answers through it. Default false. */
  readonly answersItself?: boolean;
  /** Whether it is given the response, and Nest answers with what it returns. Default false. */
  readonly passesOn?: boolean;
}

export interface NestRoutesOptions {
  /** Default `{ rawBody: true }`. */
  readonly app?: object;
  readonly prepare?: (app: Loose) => unknown;
}

/** An app that is ready, for `listen` and for wrappers that take Express's or Fastify's own app. */
export async function nestInstance(
  platform: keyof typeof platforms,
  routes: readonly NestRoute[],
  { app: options = { rawBody: true }, prepare = () => {} }: NestRoutesOptions = {},
): Promise<Loose> {
  class Routes {}
  const { prototype } = Routes;
  for (const [index, route] of routes.entries()) {
    const name = `route${index}`;
    const { path, status = 201, interceptors = [], handle, answersItself = false, passesOn = false } = route;
    // A function of its own: Nest keeps what it knows of a route with the function.
    const value = (req: Loose, res: Loose) => handle(req, res);
    Object.defineProperty(prototype, name, { value, configurable: true, writable: true });
    const method = Object.getOwnPropertyDescriptor(prototype, name) ?? {};
    Req()(prototype, name, 0);
    if (answersItself || passesOn) Res({ passthrough: passesOn })(prototype, name, 1);
    HttpCode(status)(prototype, name, method);
    if (interceptors.length > 0) UseInterceptors(...(interceptors as Loose[]))(prototype, name, method);
    Post(path)(prototype, name, method);
  }
  Controller()(Routes);
  class Root {}
  Module({ controllers: [Routes] })(Root);
  const app = await NestFactory.create(Root, platforms[platform]() as Loose, {
    ...options,
    logger: false,
    abortOnError: false,
  });
  await prepare(app);
  await app.init();
  const instance: Loose = app.getHttpAdapter().getInstance();
  if (platform === "Fastify") await instance.ready();
  return instance;
}

/** The same as a listener. */
export async function nestListener(...given: Parameters<typeof nestInstance>): Promise<RequestListener> {
  const instance = await nestInstance(...given);
  return given[0] === "Fastify" ? instance.routing : instance;
}
