/** The HTTP conformance suite's app, on each framework. */
import { Readable } from "node:stream";
import { getRequestListener } from "@hono/node-server";
import express, {
  type ErrorRequestHandler,
  type Express,
  type Response as ExpressResponse,
  type Request,
} from "express";
import express4 from "express4";
import { type Context, Hono } from "hono";
import {
  expressProtect,
  expressRecord,
  expressServe,
  expressStatus,
  keepRawBody,
} from "../../packages/latchkey/src/http/express/express.ts";
import { fetchProtect, fetchServe, fetchStatus } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { honoProtect, honoServe, honoStatus } from "../../packages/latchkey/src/http/hono/hono.ts";
import type { Attempt } from "../../packages/latchkey/src/operations/attempt.ts";
import type {
  AppUnderTest,
  HandlerAnswer,
} from "../../packages/latchkey-conformance/src/http-conformance/case.ts";
import { type Listening, listen } from "../support/listen.ts";
import { fastifyListener } from "./fastify-app.ts";
import { koaListener, parseBody } from "./koa-app.ts";
import { nestExpressListener, nestFastifyListener } from "./nest-app.ts";
import { isStatus, nodeListener, statusOf } from "./node-app.ts";

export interface Framework {
  readonly name: string;
  readonly seesFieldLines: boolean;
  /** Whether it stands for its adapter where all variants would take too long. */
  readonly oneOfItsKind: boolean;
  serve<Tx>(app: AppUnderTest<Tx>): Promise<Listening>;
}

const parserOptions = { verify: keepRawBody, limit: "20mb" };

const nodeFrameworks: readonly Omit<Framework, "seesFieldLines">[] = [
  expressFramework("Express 5", () => express(), true),
  expressFramework("Express 5 with body parsers", () =>
    express().use(express.json(parserOptions), express.raw({ ...parserOptions, type: "*/*" })),
  ),
  expressFramework("Express 4", () => express4()),
  expressFramework("Express 4 with body parsers", () =>
    express4().use(express4.json(parserOptions), express4.raw({ ...parserOptions, type: "*/*" })),
  ),
  { name: "Fastify", oneOfItsKind: true, serve: async (app) => listen(await fastifyListener(app)) },
  { name: "Koa", oneOfItsKind: true, serve: async (app) => listen(koaListener(app)) },
  {
    name: "Koa with a body parser",
    oneOfItsKind: false,
    serve: async (app) => listen(koaListener(app, [parseBody])),
  },
  ...(["returns", "@Res"] as const).flatMap((answering) => [
    {
      name: `Nest on Express, ${answering}`,
      oneOfItsKind: answering === "returns",
      serve: async <Tx>(app: AppUnderTest<Tx>) => listen(await nestExpressListener(app, answering)),
    },
    {
      name: `Nest on Fastify, ${answering}`,
      oneOfItsKind: answering === "returns",
      serve: async <Tx>(app: AppUnderTest<Tx>) => listen(await nestFastifyListener(app, answering)),
    },
  ]),
  { name: "node:http", oneOfItsKind: true, serve: async (app) => listen(nodeListener(app)) },
  { name: "Hono", oneOfItsKind: true, serve: serveHono },
];

export const frameworks: readonly Framework[] = [
  ...nodeFrameworks.map((framework) => ({ ...framework, seesFieldLines: true })),
  { name: "Fetch", seesFieldLines: false, oneOfItsKind: true, serve: serveFetch },
];

/** Express 5 without anything else. */
export function expressListener<Tx>(app: AppUnderTest<Tx>): Express {
  const served = express();
  mountExpress(served, app);
  return served;
}

function expressFramework(
  name: string,
  makeApp: () => Express,
  oneOfItsKind = false,
): Omit<Framework, "seesFieldLines"> {
  return {
    name,
    oneOfItsKind,
    async serve(app) {
      const served = makeApp();
      mountExpress(served, app);
      return listen(served);
    },
  };
}

function mountExpress<Tx>(app: Express, under: AppUnderTest<Tx>): void {
  const { latchkey, route, served, settings, tenant, principal } = under;
  const options = {
    ...settings,
    tenant: (req: Request) => tenant((name) => req.get(name)),
    principal: (req: Request) => principal((name) => req.get(name)),
  };
  const protect = expressProtect(latchkey, options);
  const handler =
    route.execution === "lease"
      ? protect(route.operation, async (req, res, context) =>
          write(res, await route.handle(async () => sentBytes(req), context)),
        )
      : protect(route.operation, async (req, res, context) =>
          write(res, await route.handle(async () => sentBytes(req), context)),
        );
  app[route.method === "GET" ? "get" : "post"](route.path, handler);
  if (served !== undefined) {
    const serve = expressServe(latchkey, options);
    const handle = serve(served.operation, (req: Request) => served.toInput(async () => sentBytes(req)));
    app[served.method === "GET" ? "get" : "post"](served.path, handle);
  }
  if (settings.statusPath !== undefined) {
    app.get(`${settings.statusPath}/:id`, expressStatus(latchkey, options));
  }
  app.use(answerFailure);
}

const answerFailure: ErrorRequestHandler = (error, _req, res, _next) => {
  res.status(error.status ?? 500).end("failed");
};

/** What was sent, as far as an Express handler can still tell. */
function sentBytes(req: Request): Uint8Array {
  if (req.body === undefined) return new Uint8Array(0);
  return req.body instanceof Uint8Array ? req.body : Buffer.from(JSON.stringify(req.body));
}

/** A mount over the whole app, whose handlers know nothing of Latchkey. */
export const recordedExpress: Framework = {
  name: "Express 5, recorded by a mount",
  seesFieldLines: true,
  oneOfItsKind: false,
  serve: async (app) => listen(recordedListener(app)),
};

export function recordedListener<Tx>(under: AppUnderTest<Tx>): Express {
  const { latchkey, route, settings, tenant, principal } = under;
  if (route.execution !== "lease") throw new TypeError("A mount records operations under a lease");
  const { operation, handle } = route;
  const options = {
    methods: ["POST", "PATCH", "GET", "HEAD"],
    ...settings,
    tenant: (req: Request) => tenant((name) => req.get(name)),
    principal: (req: Request) => principal((name) => req.get(name)),
  };
  const record = expressRecord(latchkey, options);
  const app = express().use(express.json(parserOptions), express.raw({ ...parserOptions, type: "*/*" }));
  if (settings.statusPath !== undefined) {
    app.get(`${settings.statusPath}/:id`, expressStatus(latchkey, options));
  }
  app.use(record(operation));
  app[route.method === "GET" ? "get" : "post"](route.path, async (req, res) =>
    write(res, await handle(async () => sentBytes(req), { attempt: noAttempt })),
  );
  app.use(answerFailure);
  return app;
}

const noAttempt: Attempt = {
  key: null,
  id: "",
  fence: { attempt: 1, token: "" },
  signal: new AbortController().signal,
  release() {},
  retain() {},
};

function write(res: ExpressResponse, { status, headers = [], body, error }: HandlerAnswer): void {
  res.status(status);
  for (const [name, value] of headers) res.append(name, value);
  if (error !== undefined) throw error;
  if (body === undefined) res.end();
  else if (typeof body === "string" || body instanceof Uint8Array) res.end(body);
  else Readable.from(body).pipe(res);
}

async function serveHono<Tx>(under: AppUnderTest<Tx>): Promise<Listening> {
  const { latchkey, route, served, settings, tenant, principal } = under;
  const options = {
    ...settings,
    tenant: (c: Context) => tenant((name) => c.req.header(name)),
    principal: (c: Context) => principal((name) => c.req.header(name)),
  };
  const protect = honoProtect(latchkey, options);
  const app = new Hono().onError((error) => new Response("failed", { status: statusOf(error) }));
  const handler =
    route.execution === "lease"
      ? protect(route.operation, async (c, context) =>
          responseOf(await route.handle(() => c.req.bytes(), context), (name, value) =>
            c.header(name, value, { append: true }),
          ),
        )
      : protect(route.operation, async (c, context) =>
          responseOf(await route.handle(() => c.req.bytes(), context), (name, value) =>
            c.header(name, value, { append: true }),
          ),
        );
  app.on(route.method, route.path, handler);
  if (served !== undefined) {
    const serve = honoServe(latchkey, options);
    const handle = serve(served.operation, (c) => served.toInput(() => c.req.bytes()));
    app.on(served.method, served.path, handle);
  }
  if (settings.statusPath !== undefined) {
    app.get(`${settings.statusPath}/:id`, honoStatus(latchkey, options));
  }
  return listen(getRequestListener(app.fetch));
}

async function serveFetch<Tx>(under: AppUnderTest<Tx>): Promise<Listening> {
  const { latchkey, route, served, settings, tenant, principal } = under;
  const options = {
    ...settings,
    tenant: ({ headers }: globalThis.Request) => tenant((name) => headers.get(name)),
    principal: ({ headers }: globalThis.Request) => principal((name) => headers.get(name)),
  };
  const protect = fetchProtect(latchkey, options);
  const handler =
    route.execution === "lease"
      ? protect(route.operation, async (request, context) =>
          responseOf(await route.handle(() => request.bytes(), context)),
        )
      : protect(route.operation, async (request, context) =>
          responseOf(await route.handle(() => request.bytes(), context)),
        );
  const handleServed =
    served === undefined
      ? handler
      : fetchServe(latchkey, options)(served.operation, (request) =>
          // Requests of the server below have no `bytes()` unless they are real ones.
          served.toInput(async () => new Uint8Array(await request.arrayBuffer())),
        );
  const status = fetchStatus(latchkey, options);
  const chosen = (pathname: string) => {
    if (isStatus(settings, pathname)) return status;
    return pathname === served?.path ? handleServed : handler;
  };
  const guarded = (request: globalThis.Request) =>
    chosen(new URL(request.url).pathname)(request).catch(
      (error: unknown) => new Response("failed", { status: statusOf(error) }),
    );
  return listen(getRequestListener(guarded));
}

function responseOf(
  { status, headers = [], body, error }: HandlerAnswer,
  prepare: (name: string, value: string) => void = () => {},
): Response {
  if (error !== undefined) {
    for (const [name, value] of headers) prepare(name, value);
    throw error;
  }
  const streamed = body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array);
  const content = streamed
    ? ReadableStream.from(body)
    : body === undefined
      ? null
      : Buffer.from(body as string);
  const response = new Response(content, { status });
  for (const [name, value] of headers) response.headers.append(name, value);
  return response;
}
