/** Compression and CORS as services use them: before the protected handler, and inside it. */
import type { RequestListener } from "node:http";
import { gunzipSync } from "node:zlib";
import { getRequestListener } from "@hono/node-server";
import compression from "compression";
import cors from "cors";
import express from "express";
import { Hono } from "hono";
import { compress } from "hono/compress";
import { cors as honoCors } from "hono/cors";
import { afterEach, describe, expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

const value = { text: "compress me ".repeat(200) };
const text = JSON.stringify(value);
const type = { "Content-Type": "application/json" };
const origins = ["https://a.example", "https://b.example"];
const corsOptions = { origin: origins, credentials: true, exposedHeaders: ["Idempotent-Replayed"] };
type Middleware = (req: never, res: never, next: (error?: unknown) => void) => void;
const compressing = compression({ threshold: 0 }) as Middleware;

/** Services that compress, where and how each of them would, and answer the JSON value. */
const services: Record<string, () => RequestListener> = {
  "Express, with middleware before": () => {
    const { latchkey, operation } = httpService();
    const protect = expressProtect(latchkey, { singleTenant: true });
    const app = express().use(cors(corsOptions), compression({ threshold: 0 }));
    return app.post(
      "/run",
      protect(operation(), (_req, res) => res.json(value)),
    );
  },
  "node:http, with middleware before": () => {
    const { latchkey, operation } = httpService();
    const protect = nodeProtect(latchkey, { singleTenant: true });
    const handle = protect(operation(), (_req, res) => res.writeHead(200, type).end(text));
    return (req, res) => {
      (cors(corsOptions) as Middleware)(req as never, res as never, () =>
        compressing(req as never, res as never, () => {
          handle(req, res).catch(() => res.destroy());
        }),
      );
    };
  },
  "Hono, with middleware before": () => {
    const { latchkey, operation } = httpService();
    const protect = honoProtect(latchkey, { singleTenant: true });
    const app = new Hono();
    const { exposedHeaders: exposeHeaders } = corsOptions;
    app.use(honoCors({ origin: origins, credentials: true, exposeHeaders }), compress({ threshold: 0 }));
    app.post(
      "/run",
      protect(operation(), (c) => c.json(value)),
    );
    return getRequestListener(app.fetch);
  },
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(listener: RequestListener) {
  const { url, close } = await listen(listener);
  closing.push(close);
  return (key: string, headers: readonly (readonly [string, string])[], body?: string) =>
    send(url, { key, headers, ...(body === undefined ? {} : { body }) });
}

const gzip = ["Accept-Encoding", "gzip"] as const;
const identity = ["Accept-Encoding", "identity"] as const;

describe.each(Object.entries(services))("%s", (_name, makeListener) => {
  test("each answer is compressed for its own client; all have the same content", async () => {
    const call = await start(makeListener());
    const key = newKey();
    const first = await call(key, [gzip]);
    const replay = await call(key, [gzip]);
    const bare = await call(key, [identity]);
    expect([first, replay, bare].map((answer) => answer.header("content-encoding"))).toEqual([
      "gzip",
      "gzip",
      null,
    ]);
    expect([gunzipSync(first.body), gunzipSync(replay.body), bare.body].map(String)).toEqual(
      Array(3).fill(text),
    );
    expect([replay, bare].map((answer) => answer.header("idempotent-replayed"))).toEqual(["true", "true"]);
    expect(first.header("vary")).toContain("Accept-Encoding");
    expect(replay.header("vary")).toBe(first.header("vary"));
    const problem = await call(key, [gzip], '{"amount":2}');
    const problemBody =
      problem.header("content-encoding") === "gzip" ? gunzipSync(problem.body) : problem.body;
    expect(JSON.parse(problemBody.toString()).code).toBe("key-misuse");
  });

  test("each answer is for the origin that asks, replays and problems too", async () => {
    const call = await start(makeListener());
    const key = newKey();
    for (const origin of [...origins, ...origins]) {
      const answer = await call(key, [["Origin", origin], identity]);
      expect(answer.header("access-control-allow-origin")).toBe(origin);
      expect(answer.header("access-control-allow-credentials")).toBe("true");
      expect(answer.header("access-control-expose-headers")).toBe("Idempotent-Replayed");
      expect(answer.lines.filter(([name]) => name === "access-control-allow-origin")).toHaveLength(1);
    }
    const otherOrigin = await call(key, [["Origin", "https://c.example"], identity]);
    expect([otherOrigin.header("access-control-allow-origin"), otherOrigin.body.toString()]).toEqual([
      null,
      text,
    ]);
    const problem = await call(key, [["Origin", origins[1] as string], identity], '{"amount":2}');
    expect([problem.status, problem.header("access-control-allow-origin")]).toEqual([422, origins[1]]);
  });
});

test("what is compressed inside the handler is stored so, and replayed byte for byte to everybody", async () => {
  const { latchkey, operation } = httpService();
  const protect = expressProtect(latchkey, { singleTenant: true });
  const listener = express().post(
    "/run",
    protect(operation(), (req, res) => {
      compressing(req as never, res as never, () => res.json(value));
    }),
  );
  const call = await start(listener);
  const key = newKey();
  const first = await call(key, [gzip]);
  const replays = [await call(key, [gzip]), await call(key, [identity])];
  expect(gunzipSync(first.body).toString()).toBe(text);
  for (const replay of replays) {
    expect(replay.header("content-encoding")).toBe("gzip");
    expect(replay.body).toEqual(first.body);
  }
});
