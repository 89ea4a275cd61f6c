/** OpenTelemetry's own instrumentation around protected routes: it patches the frameworks, which therefore are loaded after it. */
import { createRequire } from "node:module";
import { FastifyOtelInstrumentation } from "@fastify/otel";
import { getRequestListener } from "@hono/node-server";
import { httpInstrumentationMiddleware } from "@hono/otel";
import { registerInstrumentations } from "@opentelemetry/instrumentation";
import { ExpressInstrumentation } from "@opentelemetry/instrumentation-express";
import { HttpInstrumentation } from "@opentelemetry/instrumentation-http";
import { KoaInstrumentation } from "@opentelemetry/instrumentation-koa";
import { InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import type expressModule from "express";
import type fastifyModule from "fastify";
import { Hono } from "hono";
import type KoaModule from "koa";
import { afterAll, describe, expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { fetchProtect } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import { newKey } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { variantsWith } from "../registry/frameworks.ts";
import { httpService } from "../support/http-service.ts";
import { until } from "../support/until.ts";
import { nestInstance } from "./nest-routes.ts";
import { serveListener } from "./served.ts";

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();
const fastifyOtel = new FastifyOtelInstrumentation();
const stop = registerInstrumentations({
  tracerProvider: provider,
  instrumentations: [
    new HttpInstrumentation(),
    new ExpressInstrumentation(),
    new KoaInstrumentation(),
    fastifyOtel,
  ],
});
afterAll(async () => {
  stop();
  await provider.shutdown();
});

const require = createRequire(import.meta.url);
// Patches the prototype of servers, also those that an import has already seen.
require("node:http");
const express: typeof expressModule = require("express");
const Koa: typeof KoaModule = require("koa");
const fastify: typeof fastifyModule = require("fastify");

const single = { singleTenant: true } as const;
const answer = { ordered: true };

type Service = ReturnType<typeof httpService>;

const listeners = {
  express({ latchkey, lease }: Service) {
    const protect = expressProtect(latchkey, single);
    return express().post(
      "/run",
      protect(lease(), (_req, res) => res.status(201).json(answer)),
    );
  },
  koa({ latchkey, lease }: Service) {
    const protect = koaProtect(latchkey, single);
    const handle = protect(lease(), (ctx) => {
      ctx.status = 201;
      ctx.body = answer;
    });
    return new Koa().use(handle).callback();
  },
  async fastify({ latchkey, lease }: Service) {
    const app = fastify();
    // Wraps every handler and every hook.
    await app.register(fastifyOtel.plugin());
    const protect = fastifyProtect(app, latchkey, single);
    app.post(
      "/run",
      protect(lease(), (_request, reply) => reply.code(201).send(answer)),
    );
    await app.ready();
    return app.routing;
  },
  hono({ latchkey, lease }: Service) {
    const protect = honoProtect(latchkey, single);
    const app = new Hono();
    app.use(httpInstrumentationMiddleware({ tracerProvider: provider }));
    app.post(
      "/run",
      protect(lease(), (c) => c.json(answer, 201)),
    );
    return getRequestListener(app.fetch);
  },
  fetch({ latchkey, lease }: Service) {
    const protect = fetchProtect(latchkey, single);
    return getRequestListener(protect(lease(), () => Response.json(answer, { status: 201 })));
  },
  nest({ latchkey, lease }: Service) {
    const interceptors = [nestProtect(latchkey, single)(lease())];
    return nestInstance("Express", [{ path: "/run", interceptors, handle: () => answer }]);
  },
  async nestFastify({ latchkey, lease }: Service) {
    const interceptors = [nestProtect(latchkey, single)(lease())];
    const app = await nestInstance("Fastify", [{ path: "/run", interceptors, handle: () => answer }], {
      prepare: (nest) => nest.register(fastifyOtel.plugin()),
    });
    return app.routing;
  },
  node({ latchkey, lease }: Service) {
    const protect = nodeProtect(latchkey, single);
    const handle = protect(lease(), (_req, res) =>
      res.writeHead(201, { "Content-Type": "application/json" }).end(JSON.stringify(answer)),
    );
    return (req: Parameters<typeof handle>[0], res: Parameters<typeof handle>[1]) => void handle(req, res);
  },
};

test("are those that the registry names", () => {
  expect(Object.keys(listeners).toSorted()).toEqual(variantsWith("openTelemetry").toSorted());
});

/** Who else has a span of each request. */
const others: Readonly<Record<string, string>> = {
  express: "@opentelemetry/instrumentation-express",
  koa: "@opentelemetry/instrumentation-koa",
  fastify: "@fastify/otel",
  nestFastify: "@fastify/otel",
  hono: "@hono/otel",
};

/** Spans that have ended: Latchkey holds the response, and none may be held with it. */
function spansOf(instrumentation: string) {
  return exporter.getFinishedSpans().filter(({ instrumentationScope: { name } }) => name === instrumentation);
}

function serverSpans() {
  return spansOf("@opentelemetry/instrumentation-http").filter(({ kind }) => kind === 1);
}

describe.each(Object.entries(listeners))("%s", (name, makeListener) => {
  test("each request has one server span, which ends with the status that the client has got", async () => {
    exporter.reset();
    const service = httpService();
    const served = await serveListener(await makeListener(service));
    const key = newKey();
    const calls = [{ key }, { key }, { key, body: '{"amount":2}' }];
    const statuses: number[] = [];
    for (const call of calls) statuses.push((await served.call(call)).status);
    expect(statuses).toEqual([201, 201, 422]);
    await until(() => serverSpans().length === calls.length, { what: "each request has a finished span" });
    const seen = serverSpans().map(
      ({ attributes }) => attributes["http.response.status_code"] ?? attributes["http.status_code"],
    );
    expect(seen.toSorted()).toEqual(statuses);
    const traces = new Set(serverSpans().map((span) => span.spanContext().traceId));
    const other = others[name];
    if (other !== undefined) {
      const within = () => new Set(spansOf(other).map((span) => span.spanContext().traceId));
      await until(() => within().size === calls.length, { what: `each request has a span of ${other}` });
      expect(within()).toEqual(traces);
    }
    await served.close();
    expect(service.reported()).toEqual([]);
  });
});
