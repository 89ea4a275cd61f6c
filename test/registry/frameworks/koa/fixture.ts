import { Readable } from "node:stream";
import Koa, { type Context, type Middleware } from "koa";
import { koaProtect, koaServe, koaStatus } from "latchkey/koa";
import type { FrontEndFactory, FrontEndParts } from "../../../fixture/http/front-end.ts";
import { type Params, parseJson, pathMatcher, single } from "../../../fixture/http/node-calls.ts";
import { oneByOne } from "../../../fixture/http/web-reply.ts";
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
  const app = new Koa();
  app.on("error", parts.report);
  app.use(async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      parts.report(error);
      send(ctx, failure(error));
    }
  });
  app.use(readJson);
  app.use(routerOf(parts));
  return app.callback();
};

/** A body parser as Koa's are: it leaves the value and the text. */
const readJson: Middleware = async (ctx, next) => {
  if (ctx.is("json", "+json")) {
    const chunks: Buffer[] = [];
    for await (const chunk of ctx.req) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const body = parseJson(bytes, ctx.get("Content-Type"));
    Object.assign(ctx.request, { body, rawBody: bytes.toString("utf8") });
  }
  await next();
};

function routerOf<Tx>({ latchkey, routes }: FrontEndParts<Tx>): Middleware {
  const options = {
    tenant: (ctx: Context) => ctx.get("X-Tenant") || null,
    principal: (ctx: Context) => ctx.get("X-Principal") || null,
    statusPath,
  };
  const protect = koaProtect(latchkey, options);
  const serve = koaServe(latchkey, options);
  const status = koaStatus(latchkey, options);
  type Handler = (ctx: Context) => Promise<void>;
  const handlerOf = (route: Route<Tx>, params: (path: string) => Params): Handler => {
    const call = (ctx: Context) => callOf(ctx, params(ctx.path));
    switch (route.execution) {
      case "transaction":
        return protect(route.operation, async (ctx: Context, context) =>
          send(ctx, await route.handle(call(ctx), context)),
        );
      case "lease":
        return protect(route.operation, async (ctx: Context, context) =>
          send(ctx, await route.handle(call(ctx), context)),
        );
      case "served":
        return serve(route.operation, (ctx) => route.toInput(call(ctx)));
      case "deferred":
        return serve(route.operation, (ctx) => route.toInput(call(ctx)));
      case "status":
        return status;
      case "none":
        return async (ctx) => send(ctx, await route.handle(call(ctx)));
      default:
        return route satisfies never;
    }
  };
  const entries = routes.map((route) => {
    const match = pathMatcher(route.path);
    const open = route.execution === "none" && route.open;
    return { route, match, open, handle: handlerOf(route, (path) => match(path) ?? {}) };
  });
  return async (ctx) => {
    const entry = entries.find(({ route, match }) => route.method === ctx.method && match(ctx.path));
    if (entry === undefined) return send(ctx, notFound);
    if (!entry.open && !ctx.get("X-Tenant")) return send(ctx, tenantRequired);
    return entry.handle(ctx);
  };
}

function callOf(ctx: Context, params: Params): Call {
  return {
    method: ctx.method,
    path: ctx.path,
    params,
    query: new URLSearchParams(ctx.querystring),
    tenant: ctx.get("X-Tenant"),
    key: single(ctx.headers["idempotency-key"]),
    body: async () => (ctx.request as { body?: unknown }).body,
  };
}

function send(ctx: Context, { status, headers, body }: Reply): void {
  switch (body.kind) {
    case "none":
      ctx.body = null;
      break;
    case "json":
      // Koa takes null for no body at all.
      ctx.type = "json";
      ctx.body = body.value ?? "null";
      break;
    case "bytes":
      ctx.body = Buffer.from(body.bytes);
      break;
    case "text":
      ctx.body = body.text;
      break;
    case "chunks":
      ctx.body = Readable.from(oneByOne(body.chunks));
      break;
    default:
      body satisfies never;
  }
  ctx.status = status;
  for (const [name] of headers) ctx.remove(name);
  for (const [name, value] of headers) ctx.append(name, value);
}
