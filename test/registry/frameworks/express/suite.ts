import { Readable } from "node:stream";
import express, {
  type ErrorRequestHandler,
  type Express,
  type Response as ExpressResponse,
  type Request,
} from "express";
import express4 from "express4";
import {
  expressProtect,
  expressRecord,
  expressServe,
  expressStatus,
  keepRawBody,
} from "../../../../packages/latchkey/src/http/express/express.ts";
import type { Attempt } from "../../../../packages/latchkey/src/operations/attempt.ts";
import type {
  AppUnderTest,
  HandlerAnswer,
} from "../../../../packages/latchkey-conformance/src/http-conformance/case.ts";
import type { SuiteApp } from "../../../http/suite-app.ts";
import { listen } from "../../../support/listen.ts";

const parserOptions = { verify: keepRawBody, limit: "20mb" };

export const apps: readonly SuiteApp[] = [
  expressApp("Express 5", () => express(), true),
  expressApp("Express 5 with body parsers", () =>
    express().use(express.json(parserOptions), express.raw({ ...parserOptions, type: "*/*" })),
  ),
  expressApp("Express 4", () => express4()),
  expressApp("Express 4 with body parsers", () =>
    express4().use(express4.json(parserOptions), express4.raw({ ...parserOptions, type: "*/*" })),
  ),
];

/** Express 5 without anything else. */
export function expressListener<Tx>(app: AppUnderTest<Tx>): Express {
  const served = express();
  mountExpress(served, app);
  return served;
}

function expressApp(name: string, makeApp: () => Express, oneOfItsKind = false): SuiteApp {
  return {
    name,
    seesFieldLines: true,
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
export const recordedExpress: SuiteApp = {
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
