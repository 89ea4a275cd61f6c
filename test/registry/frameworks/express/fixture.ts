import { setImmediate as turn } from "node:timers/promises";
import express, { type ErrorRequestHandler, type Request, type RequestHandler, type Response } from "express";
import { expressProtect, expressServe, expressStatus, keepRawBody } from "latchkey/express";
import { bodyLimitBytes, type FrontEndFactory, type FrontEndParts } from "../../../fixture/http/front-end.ts";
import {
  type Call,
  failure,
  notFound,
  type Reply,
  type Route,
  statusPath,
  tenantRequired,
} from "../../../fixture/route.ts";

export const frontEnd: FrontEndFactory = async (parts) => {
  const app = express();
  app.disable("x-powered-by");
  app.use(express.json({ verify: keepRawBody, limit: bodyLimitBytes, strict: false }));
  mount(app, parts);
  app.use((_req, res) => send(res, notFound));
  app.use(answerFailures(parts.report));
  return app;
};

function mount<Tx>(app: express.Express, { latchkey, routes }: FrontEndParts<Tx>): void {
  const options = {
    tenant: (req: Request) => req.get("X-Tenant"),
    principal: (req: Request) => req.get("X-Principal") || null,
    statusPath,
  };
  const protect = expressProtect(latchkey, options);
  const serve = expressServe(latchkey, options);
  const status = expressStatus(latchkey, options);
  const handlerOf = (route: Route<Tx>): RequestHandler => {
    switch (route.execution) {
      case "transaction":
        return protect(route.operation, async (req: Request, res: Response, context) =>
          send(res, await route.handle(callOf(req), context)),
        );
      case "lease":
        return protect(route.operation, async (req: Request, res: Response, context) =>
          send(res, await route.handle(callOf(req), context)),
        );
      case "served":
        return serve(route.operation, (req) => route.toInput(callOf(req)));
      case "deferred":
        return serve(route.operation, (req) => route.toInput(callOf(req)));
      case "status":
        return status;
      case "none":
        return async (req, res) => send(res, await route.handle(callOf(req)));
      default:
        return route satisfies never;
    }
  };
  for (const route of routes) {
    const path = route.path.replaceAll(/\{(\w+)\}/gu, ":$1");
    const guards = route.execution === "none" && route.open ? [] : [requireTenant];
    app[method(route)](path, ...guards, handlerOf(route));
  }
}

function method<Tx>(route: Route<Tx>): "get" | "post" | "put" | "delete" {
  const names = { GET: "get", POST: "post", PUT: "put", DELETE: "delete" } as const;
  return names[route.method];
}

const requireTenant: RequestHandler = async (req, res, next) => {
  if (req.get("X-Tenant")) next();
  else await send(res, tenantRequired);
};

function callOf(req: Request): Call {
  const { pathname, searchParams } = new URL(req.originalUrl, "http://fixture");
  return {
    method: req.method,
    path: pathname,
    params: req.params as Readonly<Record<string, string>>,
    query: searchParams,
    tenant: req.get("X-Tenant") ?? "",
    key: req.get("Idempotency-Key") ?? null,
    body: async () => req.body,
  };
}

async function send(res: Response, reply: Reply): Promise<void> {
  res.status(reply.status);
  for (const [name, value] of reply.headers) res.append(name, value);
  const { body } = reply;
  switch (body.kind) {
    case "none":
      res.end();
      return;
    case "json":
      res.json(body.value);
      return;
    case "bytes":
      res.send(Buffer.from(body.bytes));
      return;
    case "text":
      res.end(body.text);
      return;
    case "chunks":
      for (const chunk of body.chunks) {
        res.write(chunk);
        await turn();
      }
      res.end();
      return;
    default:
      body satisfies never;
  }
}

function answerFailures(report: (error: unknown) => void): ErrorRequestHandler {
  return async (error, _req, res, next) => {
    report(error);
    if (res.headersSent) next(error);
    else await send(res, failure(error));
  };
}
