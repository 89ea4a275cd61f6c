/** What the cases need of one version of Nest; each test file hands over the packages that are installed beside it. */
import type * as common from "@nestjs/common";
import type { Type } from "@nestjs/common";
import type * as core from "@nestjs/core";
import type { ExpressAdapter } from "@nestjs/platform-express";
import type { FastifyAdapter } from "@nestjs/platform-fastify";
import type * as swagger from "@nestjs/swagger";
import type * as terminus from "@nestjs/terminus";
import { afterEach } from "vitest";
import { type HttpCall, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";

export interface Nest {
  readonly version: string;
  readonly common: typeof common;
  readonly core: typeof core;
  readonly ExpressAdapter: typeof ExpressAdapter;
  readonly FastifyAdapter: typeof FastifyAdapter;
  readonly swagger: typeof swagger;
  readonly terminus: typeof terminus;
}

export type OpenAPIObject = swagger.OpenAPIObject;
export type Platform = "Express" | "Fastify";

const running = new Set<common.INestApplication>();
afterEach(async () => {
  for (const app of running) await app.close();
  running.clear();
});

export interface Started {
  readonly app: common.INestApplication;
  call(call?: HttpCall): ReturnType<typeof send>;
}

/** Creates an app as its users do, without listening. */
export async function createApp(nest: Nest, platform: Platform, Root: Type | common.DynamicModule) {
  const adapter = platform === "Express" ? new nest.ExpressAdapter() : new nest.FastifyAdapter();
  const options = { rawBody: true, logger: false, abortOnError: false } as const;
  const app = await nest.core.NestFactory.create(Root, adapter, options);
  running.add(app);
  return app;
}

export async function startApp(
  nest: Nest,
  platform: Platform,
  Root: Type | common.DynamicModule,
  prepare: (app: common.INestApplication) => void = () => {},
): Promise<Started> {
  const app = await createApp(nest, platform, Root);
  prepare(app);
  await app.listen(0, "127.0.0.1");
  const url = await app.getUrl();
  return { app, call: (call = {}) => send(url, call) };
}

/** Ends an app before its test does. */
export function endApp(app: common.INestApplication): Promise<void> {
  running.delete(app);
  return app.close();
}
