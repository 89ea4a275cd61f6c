/** What the pages on adapters say in words about single frameworks, where no other test does. */
import type { RequestListener } from "node:http";
import { gzipSync } from "node:zlib";
import { getRequestListener } from "@hono/node-server";
import express, { type Request, type Response } from "express";
import fastify, { type FastifyRequest } from "fastify";
import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { validator } from "hono/validator";
import { afterEach, describe, expect, test } from "vitest";
import { expressProtect, keepRawBody } from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import {
  type HttpCall,
  newKey,
  send,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(listener: RequestListener) {
  const { url, close } = await listen(listener);
  closing.push(close);
  return (call: HttpCall) => send(url, call);
}

const single = { singleTenant: true } as const;
const json = '{"a":1}';
const gzipped: HttpCall = { body: gzipSync(json), headers: [["Content-Encoding", "gzip"]] };

describe("Hono", () => {
  const broken: HttpCall = { body: "{" };
  const quiet = () =>
    new Hono().onError((error, c) =>
      error instanceof HTTPException ? error.getResponse() : c.text("failed", 500),
    );
  const handle = async (c: Context) => c.json(await c.req.json());

  test("malformed JSON is a handler's throw: a free key in a transaction, an unknown outcome under a lease", async () => {
    for (const execution of ["transaction", "lease"] as const) {
      const service = httpService();
      const operation = execution === "lease" ? service.lease() : service.operation();
      const call = await serve(
        getRequestListener(
          quiet().post("/run", honoProtect(service.latchkey, single)(operation, handle)).fetch,
        ),
      );
      const key = newKey();
      expect((await call({ ...broken, key })).status).toBe(500);
      if (execution === "lease") expect((await call({ ...broken, key })).json().code).toBe("outcome-unknown");
      else expect((await call({ key, body: json })).status).toBe(200);
    }
  });

  test("a validator before it answers 400, and the key stays free", async () => {
    const service = httpService();
    const protect = honoProtect(service.latchkey, single);
    const handler = protect(service.lease(), handle);
    const app = quiet().post(
      "/run",
      validator("json", (body) => body),
      (c) => handler(c),
    );
    const call = await serve(getRequestListener(app.fetch));
    const key = newKey();
    expect((await call({ ...broken, key })).status).toBe(400);
    expect((await call({ key, body: json })).body.toString()).toBe(json);
  });

  test("an HTTPException under a lease leaves an unknown outcome", async () => {
    const service = httpService();
    const handler = honoProtect(service.latchkey, single)(
      service.lease(),
      async (): Promise<globalThis.Response> => {
        throw new HTTPException(400, { message: "no" });
      },
    );
    const call = await serve(getRequestListener(quiet().post("/run", (c) => handler(c)).fetch));
    const key = newKey();
    expect((await call({ key })).status).toBe(400);
    expect((await call({ key })).json().code).toBe("outcome-unknown");
  });
});

describe("compressed bodies", () => {
  const answerBody = (req: Request, res: Response) =>
    void res.json(Buffer.isBuffer(req.body) ? "bytes" : req.body);

  test("are the decoded value and the same request where Express's parser decodes them", async () => {
    const service = httpService();
    const app = express().use(express.json({ verify: keepRawBody }));
    app.post("/run", expressProtect(service.latchkey, single)(service.operation(), answerBody));
    const call = await serve(app);
    const key = newKey();
    expect((await call({ ...gzipped, key })).body.toString()).toBe(json);
    expect((await call({ key, body: json })).header("idempotent-replayed")).toBe("true");
  });

  test("are bytes, and another request, where nobody does", async () => {
    const service = httpService();
    const app = express();
    app.post("/run", expressProtect(service.latchkey, single)(service.operation(), answerBody));
    const call = await serve(app);
    const key = newKey();
    expect((await call({ ...gzipped, key })).body.toString()).toBe('"bytes"');
    expect((await call({ key, body: json })).status).toBe(422);
  });
});

test("Fastify's own `inject` gets the same answers", async () => {
  const service = httpService();
  const app = fastify();
  const protect = fastifyProtect(app, service.latchkey, single);
  app.post(
    "/run",
    protect(service.operation(), async (request: FastifyRequest) => ({ got: request.body })),
  );
  const inject = () =>
    app.inject({ method: "POST", url: "/run", payload: { a: 1 }, headers: { "idempotency-key": "k" } });
  const [first, again] = [await inject(), await inject()];
  expect(first.body).toBe('{"got":{"a":1}}');
  expect([again.body, again.headers["idempotent-replayed"]]).toEqual([first.body, "true"]);
});
