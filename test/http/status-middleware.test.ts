/** The status resource among other parts of a service: behind prefixes and middleware, and beside a worker. */
import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import express, { type ErrorRequestHandler } from "express";
import fastify, { type FastifyPluginAsync } from "fastify";
import { Hono } from "hono";
import Koa, { type Context as KoaContext } from "koa";
import type { RunAnswer } from "latchkey";
import { createLatchkey } from "latchkey";
import { memoryStore } from "latchkey/memory";
import { afterEach, describe, expect, test } from "vitest";
import { expressServe, expressStatus } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyServe, fastifyStatus } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoServe, honoStatus } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaServe, koaStatus } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nodeServe, nodeStatus } from "../../packages/latchkey/src/http/node.ts";
import {
  type HttpAnswer,
  newKey,
  send,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { workOff } from "../../packages/latchkey-conformance/src/http-conformance/work-off.ts";
import { listen } from "../support/listen.ts";
import { until } from "../support/until.ts";

const options = { singleTenant: true, statusPath: "/v1/operations" } as const;

function service(run: () => Promise<RunAnswer> = async () => ({ status: 201, body: "done" })) {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("report", { execution: "deferred", version: "1", run: () => run() });
  return { latchkey, operation };
}

type Service = ReturnType<typeof service>;

/** Services under the prefix `/v1`, whose middleware numbers the requests. */
const services: Record<string, (parts: Service) => RequestListener | Promise<RequestListener>> = {
  Express({ latchkey, operation }) {
    let requests = 0;
    const router = express.Router();
    router.post(
      "/run",
      expressServe(latchkey, options)(operation, () => null as never),
    );
    router.get("/operations/:id", expressStatus(latchkey, options));
    const answer: ErrorRequestHandler = (_error, _req, res, _next) => void res.status(500).end("failed");
    return express()
      .use((_req, res, next) => {
        res.set({ "X-Request": String(++requests), "Cache-Control": "public" });
        next();
      })
      .use("/v1", router)
      .use(answer);
  },
  async Fastify({ latchkey, operation }) {
    let requests = 0;
    const app = fastify();
    app.addHook("onRequest", async (_request, reply) => {
      reply.headers({ "X-Request": ++requests, "Cache-Control": "public" });
    });
    const routes: FastifyPluginAsync = async (plugin) => {
      const serve = fastifyServe(plugin, latchkey, options);
      plugin.post(
        "/run",
        serve(operation, () => null as never),
      );
      plugin.get("/operations/:id", fastifyStatus(latchkey, options));
    };
    await app.register(routes, { prefix: "/v1" });
    await app.ready();
    return app.routing;
  },
  Hono({ latchkey, operation }) {
    let requests = 0;
    const app = new Hono().basePath("/v1").use(async (c, next) => {
      c.header("X-Request", String(++requests));
      c.header("Cache-Control", "public");
      await next();
    });
    app.post(
      "/run",
      honoServe(latchkey, options)(operation, () => null as never),
    );
    app.get("/operations/:id", honoStatus(latchkey, options));
    return getRequestListener(app.fetch);
  },
  Koa({ latchkey, operation }) {
    let requests = 0;
    const own = { tenant: (_ctx: KoaContext) => "t", statusPath: options.statusPath };
    const run = koaServe(latchkey, own)(operation, () => null as never);
    const status = koaStatus(latchkey, own);
    return new Koa()
      .use(async (ctx, next) => {
        ctx.set({ "X-Request": String(++requests), "Cache-Control": "public" });
        await next();
      })
      .use((ctx) => (ctx.path === "/v1/run" ? run(ctx) : status(ctx)))
      .callback();
  },
  "node:http"({ latchkey, operation }) {
    let requests = 0;
    const run = nodeServe(latchkey, options)(operation, () => null as never);
    const status = nodeStatus(latchkey, options);
    return (req, res) => {
      res.setHeader("X-Request", String(++requests));
      res.setHeader("Cache-Control", "public");
      (req.url === "/v1/run" ? run : status)(req, res).catch(() => res.writeHead(500).end());
    };
  },
};

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(listener: RequestListener) {
  const { url, close } = await listen(listener);
  closing.push(close);
  const get = { method: "GET", key: null, body: "", contentType: null };
  return {
    run: (key: string) => send(url, { target: "/v1/run", key }),
    look: (accepted: HttpAnswer) => send(url, { ...get, target: accepted.header("location") ?? "" }),
  };
}

describe.each(Object.entries(services))("%s", (_name, makeListener) => {
  test("the address leads through the prefix, and what middleware sets is on every status", async () => {
    const parts = service();
    const { run, look } = await start(await makeListener(parts));
    const accepted = await run(newKey());
    const pending = await look(accepted);
    await workOff(parts.latchkey);
    const done = await look(accepted);
    const answers = [accepted, pending, done];
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 201]);
    expect(answers.map((answer) => answer.header("x-request"))).toEqual(["1", "2", "3"]);
    expect(answers.map((answer) => answer.header("cache-control"))).toEqual(Array(3).fill("no-store"));
    expect(done.json()).toBe("done");
  });
});

test("a worker in the same process runs what was accepted, and its delivery may give the answer", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const sent = latchkey.effect("mail", {
    deduplication: "none",
    execute: async ({ to }: { to: string }) => ({ sentTo: to }),
    onDelivered: async ({ result, answer }) => answer({ status: 201, body: result }),
  });
  const operation = latchkey.operation("report", {
    execution: "deferred",
    version: "1",
    async run(to: string, attempt) {
      await attempt.phase("ask", async () => {
        attempt.enqueue(sent, { to });
        return null;
      });
      return attempt.answeredBy(sent);
    },
  });
  const handle = expressServe(latchkey, options)(operation, () => "ada");
  const app = express().post("/v1/run", handle);
  const { run, look } = await start(app.get("/v1/operations/:id", expressStatus(latchkey, options)));
  const accepted = await run(newKey());
  const worker = latchkey.startWorker();
  closing.unshift(() => worker.stop());
  const done = await until(async () => {
    const answer = await look(accepted);
    return answer.status === 202 ? null : answer;
  });
  expect([done?.status, done?.json()]).toEqual([201, { sentTo: "ada" }]);
  expect(done?.header("idempotent-replayed")).toBe("true");
});
