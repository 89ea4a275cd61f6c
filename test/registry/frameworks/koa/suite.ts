import type { RequestListener } from "node:http";
import { Readable } from "node:stream";
import Koa, { type Context, type Middleware } from "koa";
import { koaProtect, koaServe, koaStatus } from "../../../../packages/latchkey/src/http/koa/koa.ts";
import type {
  AppUnderTest,
  HandlerAnswer,
} from "../../../../packages/latchkey-conformance/src/http-conformance/case.ts";
import { isStatus, type SuiteApp } from "../../../http/suite-app.ts";
import { listen } from "../../../support/listen.ts";

export const apps: readonly SuiteApp[] = [
  { name: "Koa", seesFieldLines: true, oneOfItsKind: true, serve: async (app) => listen(koaListener(app)) },
  {
    name: "Koa with a body parser",
    seesFieldLines: true,
    oneOfItsKind: false,
    serve: async (app) => listen(koaListener(app, [parseBody])),
  },
];

function koaListener<Tx>(under: AppUnderTest<Tx>, before: readonly Middleware[] = []): RequestListener {
  const { latchkey, route, served, settings, tenant, principal } = under;
  const options = {
    ...settings,
    tenant: (ctx: Context) => tenant((name) => ctx.get(name)),
    principal: (ctx: Context) => principal((name) => ctx.get(name) || null),
  };
  const protect = koaProtect(latchkey, options);
  const handler =
    route.execution === "lease"
      ? protect(route.operation, async (ctx: Context, context) =>
          write(ctx, await route.handle(async () => sentBytes(ctx), context)),
        )
      : protect(route.operation, async (ctx: Context, context) =>
          write(ctx, await route.handle(async () => sentBytes(ctx), context)),
        );
  const app = new Koa();
  app.silent = true;
  for (const each of before) app.use(each);
  const answers = ({ path, method }: Pick<AppUnderTest<Tx>["route"], "path" | "method">, ctx: Context) =>
    ctx.path === path && (method === "GET" ? ["GET", "HEAD"] : [method]).includes(ctx.method);
  app.use((ctx, next) => (answers(route, ctx) ? handler(ctx) : next()));
  if (served !== undefined) {
    const serve = koaServe(latchkey, options);
    const handle = serve(served.operation, (ctx) => served.toInput(async () => sentBytes(ctx)));
    app.use((ctx, next) => (answers(served, ctx) ? handle(ctx) : next()));
  }
  const status = koaStatus(latchkey, options);
  app.use((ctx, next) => (isStatus(settings, ctx.path) ? status(ctx) : next()));
  return app.callback();
}

/** A body parser in Koa's style, which keeps the text of what it has read. */
const parseBody: Middleware = async (ctx, next) => {
  const chunks: Buffer[] = [];
  if (ctx.is("json")) {
    for await (const chunk of ctx.req) chunks.push(chunk);
    const rawBody = Buffer.concat(chunks).toString("utf8");
    Object.assign(ctx.request, { rawBody, body: parseJson(rawBody) });
  }
  await next();
};

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw Object.assign(new Error("not JSON", { cause }), { status: 400, expose: true });
  }
}

/** What was sent, as far as a handler can still tell. */
function sentBytes(ctx: Context): Uint8Array {
  const { body } = ctx.request as { body?: unknown };
  if (body === undefined) return new Uint8Array(0);
  return body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body));
}

function write(ctx: Context, { status, headers = [], body, error }: HandlerAnswer): void {
  ctx.status = status;
  if (body === undefined) ctx.body = null;
  else if (typeof body === "string" || Buffer.isBuffer(body)) ctx.body = body;
  else if (body instanceof Uint8Array) ctx.body = Buffer.from(body);
  else ctx.body = Readable.from(body);
  ctx.status = status;
  ctx.remove("Content-Type");
  for (const [name, value] of headers) ctx.append(name, value);
  if (error !== undefined) throw error;
}
