/** Parsers that do not read a body of another type than theirs, and leave something in its place. */
import "reflect-metadata";
import type { RequestListener } from "node:http";
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";
import { Controller, Module, Post, Req, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import express from "express";
import express4 from "express4";
import fastify from "fastify";
import Koa from "koa";
import { afterEach, describe, expect, test } from "vitest";
import {
  expressProtect,
  expressServe,
  keepRawBody,
} from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { type HttpService, httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

/** Node's own, without the types of each package. */
type Loose = ReturnType<JSON["parse"]>;
// Their types give Node's own requests a body, which the types of others and of this package contradict.
const require = createRequire(import.meta.url);
const { bodyParser }: Loose = require("@koa/bodyparser");
const koaBodyParser: Loose = require("koa-bodyparser");
const xmlParser: Loose = require("express-xml-bodyparser");

const all = { singleTenant: true } as const;

/** What a handler finds: the body that its framework has, and what is in the stream. */
async function found(body: unknown, stream: NodeJS.ReadableStream): Promise<string> {
  return `${Buffer.isBuffer(body) ? body : JSON.stringify(body)} | ${await text(stream as Loose)}`;
}

function onExpress(framework: Loose, ...before: Loose[]) {
  return ({ latchkey, lease }: HttpService): RequestListener => {
    const handler = expressProtect(latchkey, all)(lease(), async (req, res) => {
      res.status(201).send(await found(req.body, req));
    });
    return framework()
      .use(...before)
      .post("/run", handler);
  };
}

function onKoa(parser: Loose) {
  return ({ latchkey, lease }: HttpService): RequestListener => {
    const app = new Koa().use(parser);
    const handler = koaProtect(latchkey, all)(lease(), async (ctx) => {
      ctx.status = 201;
      ctx.body = await found(ctx.request.body, ctx.req);
    });
    return app.use(handler as Loose).callback();
  };
}

/** Nest with its own parsers, on Express, or on Fastify with a parser that leaves an empty object. */
function onNest(fastified: boolean) {
  return async ({ latchkey, lease }: HttpService): Promise<RequestListener> => {
    class Routes {
      run(req: Loose): Promise<string> {
        return found(req.body, fastified ? req.raw : req);
      }
    }
    const { prototype } = Routes;
    const method = Object.getOwnPropertyDescriptor(prototype, "run") ?? {};
    Req()(prototype, "run", 0);
    UseInterceptors(nestProtect(latchkey, all)(lease()) as Loose)(prototype, "run", method);
    Post("run")(prototype, "run", method);
    Controller()(Routes);
    class Root {}
    Module({ controllers: [Routes] })(Root);
    const adapter = fastified ? new FastifyAdapter() : new ExpressAdapter();
    const app = await NestFactory.create(Root, adapter as Loose, { rawBody: true, logger: false });
    const instance: Loose = app.getHttpAdapter().getInstance();
    if (fastified) instance.addContentTypeParser("application/xml", async () => ({}));
    await app.init();
    if (!fastified) return instance;
    await instance.ready();
    return instance.routing;
  };
}

const emptyBody = (req: Loose, _res: Loose, next: () => void) => {
  req.body ??= {};
  next();
};

const services: Record<string, (service: HttpService) => RequestListener | Promise<RequestListener>> = {
  "a JSON parser on Express 4": onExpress(express4, express4.json({ verify: keepRawBody })),
  "JSON and form parsers on Express 4": onExpress(
    express4,
    express4.json({ verify: keepRawBody }),
    express4.urlencoded({ extended: true, verify: keepRawBody }),
  ),
  "an empty object on Express 5": onExpress(express, emptyBody),
  "a JSON parser on Express 5": onExpress(express, express.json({ verify: keepRawBody })),
  "@koa/bodyparser": onKoa(bodyParser()),
  "koa-bodyparser": onKoa(koaBodyParser()),
  "Nest's own parsers": onNest(false),
  "Nest with Fastify, a parser that leaves an empty object": onNest(true),
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(make: (service: HttpService) => RequestListener | Promise<RequestListener>) {
  const { url, close } = await listen(await make(httpService()));
  closing.push(close);
  return (key: string, body: string, contentType = "application/xml") =>
    send(url, { key, body, contentType });
}

describe.each(Object.entries(services))("%s", (_name, make) => {
  test("a body that it has not read is there for the handler, as bytes and in the stream", async () => {
    const call = await start(make);
    const key = newKey();
    const first = await call(key, "<pay>5</pay>");
    expect([first.status, first.body.toString()]).toEqual([201, "<pay>5</pay> | <pay>5</pay>"]);
    expect((await call(key, "<pay>5</pay>")).header("idempotent-replayed")).toBe("true");
    expect((await call(key, "<pay>6</pay>")).status).toBe(422);
  });
});

test("a value that middleware has put there stays, and the bytes are in the stream", async () => {
  const call = await start(
    onExpress(express, (req: Loose, _res: Loose, next: () => void) => {
      req.body = { own: 1 };
      next();
    }),
  );
  expect((await call(newKey(), "<pay>5</pay>")).body.toString()).toBe('{"own":1} | <pay>5</pay>');
});

test("a body that is empty leaves the placeholder", async () => {
  const call = await start(onExpress(express, emptyBody));
  expect((await call(newKey(), "")).body.toString()).toBe("{} | ");
});

test("`toInput` of an operation that owns its work finds them, too", async () => {
  const call = await start(({ latchkey }) => {
    const run = async (input: { sent: string }) => ({ status: 201, body: input });
    const owned = latchkey.operation("owned", { execution: "lease", version: "1", run });
    const serve = expressServe(latchkey, all);
    return express4()
      .use(express4.json({ verify: keepRawBody }))
      .post("/run", serve(owned, (req) => ({ sent: String(req.body) })) as Loose);
  });
  expect((await call(newKey(), "<pay>5</pay>")).json()).toEqual({ sent: "<pay>5</pay>" });
});

test("a parser of its own inside the handler finds the body unread", async () => {
  const parse = xmlParser({ explicitArray: false });
  const call = await start(({ latchkey, lease }) => {
    const handler = expressProtect(latchkey, all)(lease(), (req, res) => {
      req.body = undefined;
      // What tells parsers that one has read already.
      Reflect.deleteProperty(req, "_body");
      return new Promise<void>((resolve) => parse(req, res, () => resolve(void res.json(req.body))));
    });
    return express().post("/run", handler);
  });
  expect((await call(newKey(), "<pay>5</pay>")).json()).toEqual({ pay: "5" });
});

/** Fastify with a parser of XML of the app's own. */
function onFastify(parse: (request: Loose) => unknown, options: Loose = all) {
  return async ({ latchkey, lease }: HttpService) => {
    const app = fastify();
    app.addContentTypeParser("application/xml", async (request: Loose) => parse(request));
    app.setErrorHandler(({ code, message }: Loose, _request, reply) =>
      reply.code(500).send({ code, message }),
    );
    const handler = fastifyProtect(
      app as Loose,
      latchkey,
      options,
    )(lease(), async (request, reply) => reply.code(201).send(await text(request.raw)));
    app.post("/run", handler as Loose);
    await app.ready();
    return app.routing as RequestListener;
  };
}

describe.each(["auto", "parsed"])('Fastify under `fingerprint: "%s"`', (fingerprint) => {
  test.each([undefined, null, "", {}, { kind: "xml" }])(
    "a parser that does not read, and leaves %j, leaves the body to the handler",
    async (left) => {
      const call = await start(onFastify(() => left, { ...all, fingerprint }));
      const key = newKey();
      const first = await call(key, "<pay>5</pay>");
      expect([first.status, first.body.toString()]).toEqual([201, "<pay>5</pay>"]);
      expect((await call(key, "<pay>5</pay>")).header("idempotent-replayed")).toBe("true");
      expect((await call(key, "<pay>6</pay>")).status).toBe(422);
    },
  );
});

/** Middleware that reads the stream for itself, and leaves in `body` whatever was there, or something else. */
const keepsElsewhere = (left: unknown) => async (req: Loose, _res: Loose, next: () => void) => {
  req.xml = await text(req);
  req.body = left;
  next();
};

const parsed = { ...all, fingerprint: "parsed" } as const;
const readElsewhere: Record<
  string,
  (left: unknown) => (service: HttpService) => RequestListener | Promise<RequestListener>
> = {
  Express:
    (left) =>
    ({ latchkey, lease }) =>
      express()
        .post(
          "/run",
          keepsElsewhere(left),
          expressProtect(latchkey, parsed)(lease(), (_req, res) => void res.status(201).end()) as Loose,
        )
        .use(({ code }: Loose, _req: Loose, res: Loose, _next: Loose) => res.status(500).json({ code })),
  Koa:
    (left) =>
    ({ latchkey, lease }) =>
      new Koa()
        .use(async (ctx: Loose, next) => {
          ctx.request.xml = await text(ctx.req);
          ctx.request.body = left;
          await next().catch(({ code }: Loose) => void Object.assign(ctx, { status: 500, body: { code } }));
        })
        .use(
          koaProtect(latchkey, parsed)(lease(), (ctx) => void Object.assign(ctx, { status: 201 })) as Loose,
        )
        .callback(),
  Fastify: (left) =>
    onFastify(async (request) => {
      request.xml = await text(request.raw);
      return left;
    }, parsed),
};

describe.each(Object.entries(readElsewhere))("%s, whose parser keeps a body elsewhere", (name, make) => {
  test.each<[string, unknown]>([
    ["an empty object", {}],
    ["empty text", ""],
    ["null", null],
    ["a Map", new Map([["pay", 5]])],
    ["an instance with private members", new URLSearchParams("pay=5")],
    ["a bigint", { pay: 5n }],
  ])("and leaves %s, is refused: another body could not be distinguished from it", async (_left, left) => {
    const call = await start(make(left));
    expect((await call(newKey(), "<pay>5</pay>")).json(), name).toMatchObject({ code: "body-consumed" });
  });
});

test("an empty object that JSON or a form can say is a body like others", async () => {
  const call = await start(readElsewhere.Express?.({}) ?? expect.fail());
  for (const type of ["application/json", "application/problem+json", "application/x-www-form-urlencoded"]) {
    expect((await call(newKey(), "{}", type)).status, type).toBe(201);
  }
});

test("node:http: the stream has what `body` has, also in pieces, and on a connection that stays", async () => {
  const call = await start(({ latchkey, lease }) => {
    const handle = nodeProtect(latchkey, all)(lease(), async (req, res, { body }) => {
      res.end(String((await text(req)) === body.toString() && body.byteLength));
    });
    return (req, res) => void handle(req, res).catch(() => res.destroy());
  });
  expect((await call(newKey(), "x".repeat(900_000))).body.toString()).toBe("900000");
});
