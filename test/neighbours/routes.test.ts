/** What tells one route from another. A retry finds its first request; no route gets another one's answer. */
import "reflect-metadata";
import { request as httpRequest } from "node:http";
import {
  Controller,
  type INestApplication,
  Module,
  Post,
  type Type,
  UseInterceptors,
  Version,
  type VersioningOptions,
  VersioningType,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import fastify from "fastify";
import { Hono } from "hono";
import { afterEach, describe, expect, test } from "vitest";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { fetchProtect } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import {
  type HttpCall,
  newKey,
  send,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { smallServices } from "../registry/frameworks.ts";
import { httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

const one = { singleTenant: true } as const;
type Service = ReturnType<typeof httpService>;
type Loose = ReturnType<JSON["parse"]>;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

describe.each(await smallServices())("$name", ({ routed }) => {
  async function serve(options: OperationOptions = {}) {
    const { url, close } = await listen(await routed(httpService(), options));
    closing.push(close);
    const key = newKey();
    return {
      url,
      key,
      async call(target: string) {
        const { status, header } = await send(url, { target, key });
        return header("idempotent-replayed") === "true" ? "replayed" : status >= 400 ? status : "ran";
      },
    };
  }

  test("a path counts as it was sent", async () => {
    const { call } = await serve();
    const first = "/items/a%2Fb%20c/%7Ed";
    expect([await call(first), await call(first)]).toEqual(["ran", "replayed"]);
    for (const other of ["/items/a/b%20c/%7Ed", "/items/a%2Fb%20c", "/items/a%2Fb%20c/%7Ee"])
      expect([other, await call(other)]).toEqual([other, 422]);
    for (const like of ["/items/a%2fb%20c/%7ed", "/items/a%2Fb%20c/~d", "/items/a%2Fb%20c/%7Ed/"])
      expect([like, await call(like)]).not.toEqual([like, "ran"]);
  });

  test('`keyScope: "path"`: one path, however it is written, is one key; another path is another key', async () => {
    const { call } = await serve({ keyScope: "path" });
    const first = "/items/a%2Fb%20c/~d";
    expect([await call(first), await call(first)]).toEqual(["ran", "replayed"]);
    for (const like of ["/items/a%2fb%20c/~d", "/items/a%2Fb%20c/%7ed", "/items/a%2Fb%20c/~d/"])
      expect([like, await call(like)]).not.toEqual([like, "ran"]);
    for (const other of ["/items/a/b%20c/~d", "/items/A%2Fb%20c/~d", "/items/a%2Fb%20c"])
      expect([other, await call(other)]).toEqual([other, "ran"]);
  });

  test("a target with the server's origin is the same path", async () => {
    const { url, key, call } = await serve();
    expect(await call("/items/a?b=1")).toBe("ran");
    const { statusCode, headers } = await rawPost(url, `${url}/items/a?b=1`, key);
    // Routers of Express and Koa do not know such a target.
    if (statusCode !== 404) expect(headers["idempotent-replayed"]).toBe("true");
  });
});

function rawPost(url: string, path: string, key: string): Promise<Loose> {
  const { hostname, port } = new URL(url);
  const headers = { "Idempotency-Key": key, "Content-Type": "application/json", Connection: "close" };
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ hostname, port, path, method: "POST", headers }, (res) => {
      res.resume().once("end", () => resolve(res));
    });
    sent.once("error", reject).end('{"amount":1}');
  });
}

async function nestApp(
  adapter: ExpressAdapter | FastifyAdapter,
  controllers: Type[],
  setUp: (app: INestApplication) => unknown = () => {},
): Promise<INestApplication> {
  class Root {}
  Module({ controllers })(Root);
  const options = { rawBody: true, logger: false, abortOnError: false } as const;
  const app = await NestFactory.create(Root, adapter as ExpressAdapter, options);
  setUp(app);
  await app.init();
  if (adapter instanceof FastifyAdapter) await adapter.getInstance().ready();
  closing.push(() => app.close());
  return app;
}

/** Decorators are called as functions: Node runs no files that have them. */
function controllerOf(
  given: string | { readonly path?: string; readonly version?: string; readonly host?: string },
  routes: readonly (readonly [path: string, interceptor: Loose, version?: string | string[]])[],
): Type {
  class Routes {}
  routes.forEach(([path, interceptor, version], index) => {
    const name = `run${index}`;
    const value = () => `${JSON.stringify(given)} ${version}`;
    Object.defineProperty(Routes.prototype, name, { value, configurable: true, writable: true });
    const method = Object.getOwnPropertyDescriptor(Routes.prototype, name) as PropertyDescriptor;
    UseInterceptors(interceptor)(Routes.prototype, name, method);
    if (version !== undefined) Version(version)(Routes.prototype, name, method);
    Post(path)(Routes.prototype, name, method);
  });
  Controller(given as Loose)(Routes);
  return Routes;
}

const byHeader: VersioningOptions = { type: VersioningType.HEADER, header: "X-API-Version" };
const byMediaType: VersioningOptions = { type: VersioningType.MEDIA_TYPE, key: "v=" };
const byUri: VersioningOptions = { type: VersioningType.URI };
const adapters = { "Nest on Express": ExpressAdapter, "Nest on Fastify": FastifyAdapter } as const;

describe.each(Object.entries(adapters))("%s", (platform, Adapter) => {
  test.each<[string, VersioningOptions, (version: string) => HttpCall]>([
    ["a header", byHeader, (version) => ({ headers: [["X-API-Version", version]] })],
    [
      "the media type",
      byMediaType,
      (version) => ({ headers: [["Accept", `application/json;v=${version}`]] }),
    ],
    ["the URI", byUri, (version) => ({ target: `/api/v${version}/pay` })],
  ])("versions by %s under a global prefix are routes of their own", async (_how, versioning, callOf) => {
    for (const keyScope of ["operation", "path"] as const) {
      const { latchkey, lease } = httpService();
      const protect = nestProtect(latchkey, one)(lease({ keyScope }));
      const controller = controllerOf("pay", [
        ["", protect, "1"],
        ["", protect, "2"],
      ]);
      const other = controllerOf({ path: "pay", version: "3" }, [["", protect]]);
      const app = await nestApp(new Adapter(), [controller, other], (made) => {
        made.setGlobalPrefix("api");
        made.enableVersioning(versioning);
      });
      const instance = app.getHttpAdapter().getInstance();
      const { url, close } = await listen(platform === "Nest on Express" ? instance : instance.routing);
      closing.push(close);
      const key = newKey();
      const call = async (version: string) => {
        const answer = await send(url, { target: "/api/pay", key, ...callOf(version) });
        return [answer.status, answer.header("idempotent-replayed")];
      };
      expect([await call("1"), await call("1")]).toEqual([
        [201, null],
        [201, "true"],
      ]);
      const apart = keyScope === "path" ? [201, null] : [422, null];
      expect([await call("2"), await call("3")]).toEqual([apart, apart]);
      expect(await call("1")).toEqual([201, "true"]);
    }
  });
});

test("Fastify's constrained routes are routes of their own", async () => {
  const { latchkey, lease } = httpService();
  const app: Loose = fastify();
  const handler = fastifyProtect(app, latchkey, one)(lease(), async () => "done");
  for (const version of ["1.0.0", "2.0.0"]) app.post("/pay", { constraints: { version } }, handler);
  app.post("/pay", handler);
  await app.ready();
  const { url, close } = await listen((req, res) => void app.routing(req, res));
  closing.push(close);
  const key = newKey();
  const call = async (headers: NonNullable<HttpCall["headers"]>) => {
    const answer = await send(url, { target: "/pay", key, headers });
    return [answer.status, answer.header("idempotent-replayed")];
  };
  const first = [["Accept-Version", "1.x"]] as const;
  expect([await call(first), await call(first)]).toEqual([
    [200, null],
    [200, "true"],
  ]);
  expect([await call([["Accept-Version", "2.x"]]), await call([])]).toEqual([
    [422, null],
    [422, null],
  ]);
});

describe("Hono without Node", () => {
  async function statuses(app: Hono, key = newKey()): Promise<readonly unknown[]> {
    const headers = { "Idempotency-Key": key, "Content-Type": "application/json" };
    const targets = ["/eu/pay", "/eu/pay", "/us/pay"];
    const answers: unknown[] = [];
    for (const target of targets) {
      const { status, headers: got } = await app.request(target, { method: "POST", headers, body: "{}" });
      answers.push(got.get("idempotent-replayed") ?? status);
    }
    return answers;
  }
  const innerOf = ({ latchkey, lease }: Service) =>
    new Hono().post(
      "/pay",
      honoProtect(latchkey, one)(lease(), (c) => c.text("done")),
    );

  test("route and basePath keep the path", async () => {
    const routed = innerOf(httpService());
    expect(await statuses(new Hono().route("/eu", routed).route("/us", routed))).toEqual([200, "true", 422]);
    const { latchkey, lease } = httpService();
    const handler = honoProtect(latchkey, one)(lease(), (c) => c.text("done"));
    const app = new Hono();
    for (const region of ["/eu", "/us"]) app.basePath(region).post("/pay", handler);
    expect(await statuses(app)).toEqual([200, "true", 422]);
  });

  test("mount takes the path's beginning away; the app hands it on", async () => {
    const { fetch } = innerOf(httpService());
    const whole = (c: Loose) => [{ ...c.env, originalUrl: c.req.url }];
    expect(await statuses(new Hono().mount("/eu", fetch, whole).mount("/us", fetch, whole))).toEqual([
      200,
      "true",
      422,
    ]);
  });

  test("a mounted Fetch handler keeps the path with `replaceRequest: false`", async () => {
    const { latchkey, lease } = httpService();
    const handler = fetchProtect(latchkey, one)(lease(), () => new Response("done"));
    const app = new Hono();
    for (const region of ["/eu", "/us"]) app.mount(region, handler, { replaceRequest: false });
    expect(await statuses(app)).toEqual([200, "true", 422]);
  });
});
