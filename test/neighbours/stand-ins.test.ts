/** Requests and responses that unit tests make themselves, without raw headers, streams or sockets. */
import { EventEmitter } from "node:events";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import "reflect-metadata";
import { Controller, Module, Post, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import express from "express";
import express4 from "express4";
import Koa from "koa";
import { inject } from "light-my-request";
import { createMocks, type MockResponse as MockedResponse } from "node-mocks-http";
import { expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import { newKey } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";

type MockResponse = MockedResponse<express.Response>;

const answers: Readonly<Record<string, (res: MockResponse) => unknown>> = {
  json: (res) => res.status(201).json({ text: "grüße" }),
  send: (res) => res.send("grüße"),
  "send of an object": (res) => res.send({ text: "grüße" }),
  end: (res) => res.writeHead(202, { "content-type": "text/plain" }).end("grüße"),
  nothing: (res) => res.status(204).end(),
  sendStatus: (res) => res.sendStatus(404),
  bytes: (res) => res.end(Buffer.from([255, 0])),
};

type Handle = (req: never, res: never, next: (error: unknown) => void) => unknown;

const adapters = {
  express: ({ latchkey, lease }: ReturnType<typeof httpService>, answer: (res: never) => unknown) =>
    expressProtect(latchkey, { singleTenant: true })(lease(), (_req, res) => answer(res as never)) as Handle,
  node: ({ latchkey, operation }: ReturnType<typeof httpService>, answer: (res: never) => unknown) =>
    nodeProtect(latchkey, { singleTenant: true })(operation(), (_req, res) => answer(res as never)) as Handle,
};

async function callWithMocks(handle: Handle, key: string, body: object) {
  const headers = { "Idempotency-Key": key, "content-type": "application/json" };
  const { req, res } = createMocks(
    { method: "POST", url: "/orders", headers, body },
    { eventEmitter: EventEmitter },
  );
  await new Promise<void>((resolve, reject) => {
    res.on("end", resolve);
    const handled: unknown = handle(req as never, res as never, reject);
    if (handled instanceof Promise) handled.catch(reject);
  });
  const { "idempotent-replayed": replayed, ...others } = res._getHeaders();
  const { statusCode: status } = res;
  return { status, text: res._getData(), bytes: res._getBuffer(), headers: others, replayed };
}

/** Whole apps, which do not come back before the answer has gone. */
const apps = {
  express: ({ latchkey, lease }: ReturnType<typeof httpService>): RequestListener =>
    express().post(
      "/orders",
      expressProtect(latchkey, { singleTenant: true })(lease(), (_req, res) => {
        res.status(201).json({ text: "grüße" });
      }),
    ),
  express4: ({ latchkey, lease }: ReturnType<typeof httpService>): RequestListener =>
    express4().post(
      "/orders",
      expressProtect(latchkey, { singleTenant: true })(lease(), (_req, res) => {
        res.status(201).send({ text: "grüße" });
      }) as never,
    ),
  koa: ({ latchkey, lease }: ReturnType<typeof httpService>): RequestListener => {
    const handler = koaProtect(latchkey, { singleTenant: true })(lease(), (ctx) => {
      ctx.status = 201;
      ctx.body = { text: "grüße" };
    });
    return new Koa().use(handler as never).callback();
  },
  nest: async ({ latchkey, lease }: ReturnType<typeof httpService>): Promise<RequestListener> => {
    class Orders {
      create(): object {
        return { text: "grüße" };
      }
    }
    const { prototype } = Orders;
    const method = Object.getOwnPropertyDescriptor(prototype, "create") ?? {};
    const protect = nestProtect(latchkey, { singleTenant: true })(lease());
    UseInterceptors(protect as never)(prototype, "create", method);
    Post("orders")(prototype, "create", method);
    Controller()(Orders);
    class Root {}
    Module({ controllers: [Orders] })(Root);
    const app = await NestFactory.create(Root, new ExpressAdapter(), { bodyParser: false, logger: false });
    await app.init();
    return app.getHttpAdapter().getInstance() as RequestListener;
  },
};

test.each(Object.entries(apps))("node-mocks-http, an app of %s", async (_name, make) => {
  const app = await make(httpService());
  const handle: Handle = (req, res) => void app(req, res);
  const key = newKey();
  const first = await callWithMocks(handle, key, { amount: 1 });
  expect(first).toMatchObject({ status: 201, replayed: undefined });
  expect(JSON.parse(first.bytes.toString() || String(first.text))).toEqual({ text: "grüße" });
  expect(await callWithMocks(handle, key, { amount: 1 })).toEqual({ ...first, replayed: "true" });
  expect(await callWithMocks(handle, key, { amount: 2 })).toMatchObject({ status: 422 });
});

for (const [adapter, make] of Object.entries(adapters)) {
  test.each(Object.entries(answers))(`node-mocks-http, ${adapter}: %s`, async (_name, answer) => {
    const handle = make(httpService(), answer as (res: never) => unknown);
    const key = newKey();
    const plain = createMocks<express.Request, express.Response>().res;
    answer(plain);
    const first = await callWithMocks(handle, key, { amount: 1 });
    const { "content-length": _, ...headers } = first.headers;
    expect({ ...first, headers }).toEqual({
      status: plain.statusCode,
      text: typeof plain._getData() === "string" ? plain._getData() : JSON.stringify(plain._getData()),
      bytes: plain._getBuffer(),
      headers: plain._getHeaders(),
      replayed: undefined,
    });
    expect(await callWithMocks(handle, key, { amount: 1 })).toEqual({ ...first, replayed: "true" });
    expect(await callWithMocks(handle, key, { amount: 2 })).toMatchObject({ status: 422 });
  });
}

test("light-my-request, Express: bytes and text", async () => {
  const { latchkey, lease } = httpService();
  const protect = expressProtect(latchkey, { singleTenant: true });
  const app = express();
  app.post(
    "/orders",
    protect(lease(), (req, res) => res.status(201).send(`grüße ${JSON.stringify(req.body)}`)),
  );
  const call = (payload: object) =>
    inject(app as (req: IncomingMessage, res: ServerResponse) => void, {
      method: "POST",
      url: "/orders",
      headers: { "idempotency-key": "k" },
      payload,
    });
  const [first, replay] = [await call({ amount: 1 }), await call({ amount: 1 })];
  expect([first.statusCode, first.payload]).toEqual([201, 'grüße {"amount":1}']);
  expect([replay.statusCode, replay.payload]).toEqual([201, first.payload]);
  expect(replay.headers["idempotent-replayed"]).toBe("true");
  expect((await call({ amount: 2 })).statusCode).toBe(422);
});
