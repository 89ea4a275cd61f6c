/** ETags and conditional requests: the first answer as without Latchkey, the replay the same, on and off. */
import "reflect-metadata";
import type { RequestListener } from "node:http";
import fastifyEtag from "@fastify/etag";
import { Controller, Get, Module, Post, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter, type NestExpressApplication } from "@nestjs/platform-express";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import express from "express";
import express4 from "express4";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import {
  type HttpCall,
  newKey,
  send,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";
import { type Listening, listen } from "../support/listen.ts";

const one = { singleTenant: true } as const;
type Loose = ReturnType<JSON["parse"]>;

/** What handlers answer with, in the framework's own words. */
const values: Readonly<Record<string, unknown>> = {
  json: { done: true },
  text: "done",
  bytes: Buffer.from("done"),
  "empty-text": "",
  nothing: undefined,
  null: null,
};

const onExpress = (framework: Loose, etag: Loose) => async (): Promise<RequestListener> => {
  const { latchkey, lease } = httpService();
  const protect: Loose = expressProtect(latchkey, one);
  const operation = lease({ keyScope: "path" });
  const app = framework();
  if (etag !== undefined) app.set("etag", etag);
  for (const [name, value] of Object.entries(values)) {
    const answer = (_req: Loose, res: Loose) => void res.send(value);
    for (const method of ["get", "post"]) {
      app[method](`/plain/${name}`, answer);
      app[method](`/${name}`, protect(operation, answer));
    }
  }
  return app;
};

function controllerOf(): { new (): object } {
  const { latchkey, lease } = httpService();
  const interceptor = nestProtect(latchkey, one)(lease({ keyScope: "path" }));
  class Routes {}
  for (const [name, value] of Object.entries(values)) {
    for (const [verb, Method] of Object.entries({ get: Get, post: Post })) {
      for (const path of [`plain/${name}`, name]) {
        const property = `${verb} ${path}`;
        const own = { value: () => value, configurable: true, writable: true };
        Object.defineProperty(Routes.prototype, property, own);
        if (path === name) UseInterceptors(interceptor)(Routes.prototype, property, own);
        Method(path)(Routes.prototype, property, own);
      }
    }
  }
  Controller()(Routes);
  class Root {}
  Module({ controllers: [Routes] })(Root);
  return Root;
}

const nestOptions = { rawBody: true, logger: false, abortOnError: false } as const;

const apps: Readonly<Record<string, () => Promise<RequestListener>>> = {
  "Express 5, as it is": onExpress(express, undefined),
  "Express 5, strong": onExpress(express, "strong"),
  "Express 5, off": onExpress(express, false),
  "Express 4, as it is": onExpress(express4, undefined),
  "Express 4, off": onExpress(express4, false),
  async "Nest on Express, as it is"() {
    const app = await NestFactory.create(controllerOf(), new ExpressAdapter(), nestOptions);
    return (await app.init()).getHttpAdapter().getInstance();
  },
  async "Nest on Express, off"() {
    const root = controllerOf();
    const app = await NestFactory.create<NestExpressApplication>(root, new ExpressAdapter(), nestOptions);
    app.set("etag", false);
    return (await app.init()).getHttpAdapter().getInstance();
  },
  async "Nest on Fastify with @fastify/etag"() {
    const root = controllerOf();
    const app = await NestFactory.create<NestFastifyApplication>(root, new FastifyAdapter(), nestOptions);
    await app.register(fastifyEtag as Loose);
    await app.init();
    const instance = app.getHttpAdapter().getInstance();
    await instance.ready();
    return instance.routing as RequestListener;
  },
};

const ofConnection: ReadonlySet<string> = new Set(["date", "connection", "keep-alive", "transfer-encoding"]);

describe.each(Object.entries(apps))("%s", (_name, make) => {
  let service: Listening;
  beforeAll(async () => {
    service = await listen(await make());
  });
  afterAll(() => service.close());

  async function call(call: HttpCall) {
    const answer = await send(service.url, call);
    const lines = answer.lines.filter(
      ([name, value]) =>
        !ofConnection.has(name) &&
        name !== "idempotent-replayed" &&
        `${name} ${value}` !== "content-length 0",
    );
    const replayed = answer.header("idempotent-replayed");
    return { replayed, status: answer.status, body: answer.body.toString(), lines: lines.sort() };
  }

  test.each(Object.keys(values))("%s", async (name) => {
    const plain = await call({ target: `/plain/${name}` });
    const key = newKey();
    const first = await call({ target: `/${name}`, key });
    expect(first).toEqual(plain);
    expect(await call({ target: `/${name}`, key })).toEqual({ ...first, replayed: "true" });
  });

  test.each(["json", "empty-text"])("%s, to a client that has it already", async (name) => {
    const request = { method: "GET", body: "", contentType: null } as const;
    const known = await call({ ...request, target: `/plain/${name}` });
    const etag = new Map(known.lines).get("etag");
    const headers = [["If-None-Match", etag ?? '"none"']] as const;
    const plain = await call({ ...request, target: `/plain/${name}`, headers });
    const key = newKey();
    const first = await call({ ...request, target: `/${name}`, key, headers });
    expect(first).toEqual(plain);
    expect(await call({ ...request, target: `/${name}`, key, headers })).toEqual({
      ...first,
      replayed: "true",
    });
    // Another client's condition makes it another request.
    expect((await call({ ...request, target: `/${name}`, key })).status).toBe(422);
  });
});
