/** Apps inside AWS Lambda: wrappers make requests and responses of events, with stand-ins for sockets. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { configure } from "@codegenie/serverless-express";
import awsLambdaFastify from "@fastify/aws-lambda";
import express from "express";
import express4 from "express4";
import fastify from "fastify";
import { Hono } from "hono";
import { handle as honoOnLambda } from "hono/aws-lambda";
import Koa from "koa";
import serverless from "serverless-http";
import { describe, expect, test } from "vitest";
import {
  expressProtect,
  expressRecord,
  expressServe,
  keepRawBody,
} from "../../packages/latchkey/src/http/express/express.ts";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { honoProtect } from "../../packages/latchkey/src/http/hono/hono.ts";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import { nestProtect, nestServe } from "../../packages/latchkey/src/http/nest/nest.ts";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import type { Latchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { Operation } from "../../packages/latchkey/src/operations/operation.ts";
import type { MemoryTransaction } from "../../packages/latchkey/src/stores/memory.ts";
import { newKey } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { type HttpService, httpService } from "../support/http-service.ts";
import { isThorough } from "../support/thorough.ts";
import { nestInstance, type platforms } from "./nest-routes.ts";

const text = { "content-type": "text/plain; charset=utf-8", location: "/orders/1" };
const octets = { "content-type": "application/octet-stream" };
const bytes = Buffer.from([0, 255, 128, 195, 13, 10, 13, 10, 7]);

interface Made {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer | null;
}

const answers = {
  text: { status: 201, headers: text, body: "grüße\r\n\r\nan alle" },
  binary: { status: 200, headers: octets, body: bytes },
  empty: { status: 204, headers: { location: "/orders/2" }, body: null },
  stream: { status: 202, headers: text, body: "drei grüße" },
} as const satisfies Readonly<Record<string, Made>>;

type AnswerName = keyof typeof answers;
type Run = Operation<"transaction"> | Operation<"lease">;
type LambdaResult = Readonly<Record<string, unknown>>;
type LambdaHandler = (event: never, context: never) => unknown;
/** Node's own, without the types of each package. */
type Loose = ReturnType<JSON["parse"]>;
/** An app in its wrapper. `note` sees the body that the handler found. */
type Wrapped = (
  latchkey: Latchkey<MemoryTransaction>,
  operation: Run,
  name: AnswerName,
  note: (body: unknown) => void,
) => LambdaHandler | Promise<LambdaHandler>;

function answerThrough(res: ServerResponse, name: AnswerName): void {
  const { status, headers, body } = answers[name];
  res.writeHead(status, headers);
  if (name === "stream") Readable.from([..."drei grüße"]).pipe(res);
  else res.end(body ?? undefined);
}

const singleTenant = { singleTenant: true } as const;
const binary = { binary: ["application/octet-stream"] };
const codegenieBinary = { contentTypes: ["application/octet-stream"], contentEncodings: [] };

const onExpress =
  (make: () => express.Express, parser?: express.RequestHandler): Wrapped =>
  (latchkey, operation, name, note) => {
    const app = make();
    if (parser !== undefined) app.use(parser);
    app.post(
      "/orders",
      expressProtect(latchkey, singleTenant)(operation as Operation<"lease">, (req, res) => {
        note(req.body);
        answerThrough(res, name);
      }),
    );
    return serverless(app, binary) as never;
  };

function koaApp(...[latchkey, operation, name, note]: Parameters<Wrapped>): Koa {
  const protect = koaProtect(latchkey, singleTenant);
  const app = new Koa();
  const handle = protect(operation as Operation<"lease">, (ctx) => {
    note(ctx.request.body);
    const { status, headers, body } = answers[name];
    for (const [field, value] of Object.entries(headers)) ctx.set(field, value);
    ctx.body = name === "stream" ? Readable.from([..."drei grüße"]) : body;
    ctx.status = status;
  });
  app.use(handle as never);
  return app;
}

const enforceBase64 = ({ headers }: { headers: object }) =>
  Reflect.get(headers, "content-type") === "application/octet-stream";

const onNest =
  (platform: keyof typeof platforms, wrap: (instance: Loose) => unknown): Wrapped =>
  async (latchkey, operation, name, note) => {
    const handle = ({ body }: Loose, res: Loose) => {
      note(body);
      if (platform === "Express") return answerThrough(res, name);
      const { status, headers, body: answer } = answers[name];
      res.code(status).headers(headers);
      res.send(name === "stream" ? Readable.from([..."drei grüße"]) : (answer ?? undefined));
    };
    const interceptors = [nestProtect(latchkey, singleTenant)(operation)];
    const route = { path: "orders", interceptors, handle, answersItself: true };
    return wrap(await nestInstance(platform, [route])) as LambdaHandler;
  };

/** Those that show what others show, too. */
const further: Readonly<Record<string, Wrapped>> = {
  "@codegenie/serverless-express, Nest on Express": onNest("Express", (app) =>
    configure({ app, binarySettings: codegenieBinary }),
  ),
  // Fastify's listener: of its app the wrapper takes all answers for text, without Latchkey, too.
  "serverless-http, Nest on Fastify": onNest("Fastify", (app) => serverless(app.routing, binary)),
};

const wrapped: Readonly<Record<string, Wrapped>> = {
  ...(isThorough ? further : {}),
  "serverless-http, Nest on Express": onNest("Express", (app) => serverless(app, binary)),
  // Nest has started the app by then, and takes no more decorations.
  "@fastify/aws-lambda, Nest on Fastify": onNest("Fastify", (app) =>
    awsLambdaFastify(app, { enforceBase64, decorateRequest: false } as never),
  ),
  "serverless-http, Express 5": onExpress(() => express(), express.json({ verify: keepRawBody })),
  "serverless-http, Express 4": onExpress(() => express4(), express4.json({ verify: keepRawBody })),
  "serverless-http, Koa": (...given) => serverless(koaApp(...given), binary) as never,
  "serverless-http, node:http": (latchkey, operation, name, note) => {
    const protect = nodeProtect(latchkey, singleTenant);
    const handle = protect(operation as Operation<"lease">, (_req, res, { body }) => {
      note(JSON.parse(body.toString()));
      answerThrough(res, name);
    });
    const listener = (req: IncomingMessage, res: ServerResponse) => {
      handle(req, res).catch(() => res.writeHead(500).end());
    };
    return serverless(listener as never, binary) as never;
  },
  "@codegenie/serverless-express, Express": (latchkey, operation, name, note) => {
    const app = express().use(express.json({ verify: keepRawBody }));
    const protect = expressProtect(latchkey, singleTenant);
    app.post(
      "/orders",
      protect(operation as Operation<"lease">, (req, res) => {
        note(req.body);
        answerThrough(res, name);
      }),
    );
    return configure({ app, binarySettings: codegenieBinary }) as never;
  },
  "@codegenie/serverless-express, Koa": (...given) =>
    configure({ app: koaApp(...given) as never, binarySettings: codegenieBinary }) as never,
  "@fastify/aws-lambda": (latchkey, operation, name, note) => {
    const app = fastify();
    const protect = fastifyProtect(app, latchkey, singleTenant);
    const handler = protect(operation as Operation<"lease">, (request, reply) => {
      note(request.body);
      const { status, headers, body } = answers[name];
      reply.code(status).headers(headers);
      return reply.send(name === "stream" ? Readable.from([..."drei grüße"]) : (body ?? undefined));
    });
    app.post("/orders", handler);
    return awsLambdaFastify(app, { enforceBase64 } as never) as never;
  },
  "hono/aws-lambda": (latchkey, operation, name, note) => {
    const app = new Hono();
    const protect = honoProtect(latchkey, singleTenant);
    app.post(
      "/orders",
      protect(operation as Operation<"lease">, async (c) => {
        note(await c.req.json());
        const { status, headers, body } = answers[name];
        const chunks = ReadableStream.from(["drei grüße"].map((part) => Buffer.from(part)));
        const given = name === "stream" ? chunks : body;
        return new Response(given as never, { status, headers });
      }),
    );
    return honoOnLambda(app) as never;
  },
};

function eventOf(key: string, body = '{"amount":1}') {
  const headers = { "content-type": "application/json", "idempotency-key": key };
  return {
    version: "1.0",
    resource: "/orders",
    httpMethod: "POST",
    path: "/orders",
    headers,
    multiValueHeaders: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]])),
    body,
    isBase64Encoded: false,
    requestContext: { identity: { sourceIp: "192.0.2.1" }, stage: "test", resourcePath: "/orders" },
    queryStringParameters: null,
    multiValueQueryStringParameters: null,
    pathParameters: null,
    stageVariables: null,
  };
}

function seen(result: LambdaResult) {
  const { statusCode, body, isBase64Encoded, headers, multiValueHeaders } = result;
  const header = (name: string) => {
    for (const [own, value] of [...Object.entries(headers ?? {}), ...Object.entries(multiValueHeaders ?? {})])
      if (own.toLowerCase() === name) return String(value);
    return null;
  };
  return {
    status: statusCode,
    body: Buffer.from(String(body ?? ""), isBase64Encoded === true ? "base64" : "utf8").toString("latin1"),
    type: header("content-type"),
    location: header("location"),
    replayed: header("idempotent-replayed"),
  };
}

/** HTTP APIs of API Gateway, and function URLs. */
function eventOfVersion2(key: string, body = '{"amount":1}') {
  return {
    version: "2.0",
    routeKey: "$default",
    rawPath: "/orders",
    rawQueryString: "",
    headers: { "content-type": "application/json", "idempotency-key": key },
    requestContext: {
      http: {
        method: "POST",
        path: "/orders",
        protocol: "HTTP/1.1",
        sourceIp: "192.0.2.1",
        userAgent: "test",
      },
      stage: "$default",
      domainName: "shop.example",
      timeEpoch: 0,
    },
    body: Buffer.from(body).toString("base64"),
    isBase64Encoded: true,
  };
}

function eventOfLoadBalancer(key: string, body = '{"amount":1}') {
  return {
    httpMethod: "POST",
    path: "/orders",
    headers: { "content-type": "application/json", "idempotency-key": key, "x-forwarded-proto": "https" },
    body,
    isBase64Encoded: false,
    queryStringParameters: {},
    requestContext: { elb: { targetGroupArn: "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/a/b" } },
  };
}

const events = {
  "API Gateway's version 1": eventOf,
  "API Gateway's version 2": eventOfVersion2,
  "a load balancer": eventOfLoadBalancer,
} as const;

function caller(handle: LambdaHandler, makeEvent: (key: string, body?: string) => object) {
  return async (key: string, body?: string) =>
    seen((await handle(makeEvent(key, body) as never, {} as never)) as LambdaResult);
}

describe.each(Object.entries(wrapped))("%s", (_name, wrap) => {
  test.each(
    (["transaction", "lease"] as const).flatMap((execution) =>
      (Object.keys(answers) as AnswerName[])
        .filter((name) => isThorough || (execution === "lease") === (name === "binary" || name === "stream"))
        .map((name) => [execution, name] as const),
    ),
  )("%s: first answer and replay, %s", async (execution, name) => {
    const service = httpService();
    const operation = execution === "lease" ? service.lease() : service.operation();
    const bodies: unknown[] = [];
    const handle = await wrap(service.latchkey, operation, name, (body) => bodies.push(body));
    const key = newKey();
    const callAs = caller(handle, eventOf);
    const call = (body?: string) => callAs(key, body);
    const { status, headers, body } = answers[name];
    const right = {
      status,
      body: Buffer.from(body ?? "").toString("latin1"),
      type: Reflect.get(headers, "content-type") ?? null,
      location: Reflect.get(headers, "location") ?? null,
    };
    expect(await call()).toEqual({ ...right, replayed: null });
    expect(await call()).toEqual({ ...right, replayed: "true" });
    expect(bodies).toEqual([{ amount: 1 }]);
    expect(await call('{"amount":2}')).toMatchObject({ status: 422 });
  });
});

const withEvents = Object.keys(wrapped).flatMap((name) =>
  (["API Gateway's version 2", "a load balancer"] as const).map((source) => [name, source] as const),
);
const shownOnce = new Set(["serverless-http, Express 5", "@codegenie/serverless-express, Express"]);

test.each(withEvents.filter(([name]) => isThorough || shownOnce.has(name)))(
  "%s: events of %s",
  async (name, source) => {
    const service = httpService();
    const wrap = wrapped[name] ?? expect.fail();
    const bodies: unknown[] = [];
    const call = caller(
      await wrap(service.latchkey, service.lease(), "text", (body) => bodies.push(body)),
      events[source],
    );
    const key = newKey();
    const body = Buffer.from(answers.text.body).toString("latin1");
    expect(await call(key)).toMatchObject({ status: 201, body, replayed: null });
    expect(await call(key)).toMatchObject({ status: 201, body, replayed: "true" });
    expect(await call(key, '{"amount":2}')).toMatchObject({ status: 422 });
    expect(bodies).toEqual([{ amount: 1 }]);
  },
);

const owned = ({ latchkey }: HttpService) =>
  latchkey.operation("owned", {
    execution: "lease",
    version: "1",
    run: async (input: unknown) => ({ status: 201, body: input }),
  });
const parsingExpress = () => express().use(express.json({ verify: keepRawBody }));
const servedExpress = (service: HttpService) =>
  parsingExpress().post(
    "/orders",
    expressServe(service.latchkey, singleTenant)(owned(service), (req) => req.body) as never,
  );
const recordedExpress = ({ latchkey, lease }: HttpService) =>
  parsingExpress()
    .use(expressRecord(latchkey, singleTenant)(lease()))
    .post("/orders", (req, res) => void res.status(201).json(req.body));

type InWrapper = (service: HttpService) => LambdaHandler | Promise<LambdaHandler>;
const otherwise: Readonly<Record<string, InWrapper>> = {
  "expressServe in serverless-http": (service) => serverless(servedExpress(service)) as never,
  "expressRecord in @codegenie/serverless-express": (service) =>
    configure({ app: recordedExpress(service) }) as never,
  "nestServe in serverless-http": async (service) => {
    const interceptors = [nestServe(service.latchkey, singleTenant)(owned(service))];
    const route = { path: "orders", interceptors, handle: ({ body }: Loose) => body };
    return serverless(await nestInstance("Express", [route])) as never;
  },
};
const otherwiseFurther: typeof otherwise = {
  "expressServe in @codegenie/serverless-express": (service) =>
    configure({ app: servedExpress(service) }) as never,
  "expressRecord in serverless-http": (service) => serverless(recordedExpress(service)) as never,
};

test.each(Object.entries({ ...otherwise, ...(isThorough ? otherwiseFurther : {}) }))(
  "%s",
  async (_name, wrap) => {
    const call = caller(await wrap(httpService()), eventOf);
    const key = newKey();
    for (const replayed of [null, "true"])
      expect(await call(key)).toMatchObject({ status: 201, body: '{"amount":1}', replayed });
    expect(await call(key, '{"amount":2}')).toMatchObject({ status: 422 });
  },
);
