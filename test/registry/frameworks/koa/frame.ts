import { Readable } from "node:stream";
import Koa, { type Context, type Middleware } from "koa";
import { koaProtect } from "../../../../packages/latchkey/src/http/koa/koa.ts";
import type { RouteOptions } from "../../../../packages/latchkey/src/http/protocol/http-options.ts";
import { type Mounting, type Served, withDefaults } from "../../../neighbours/served.ts";
import { operationOf, type World } from "../../../neighbours/world.ts";

export type KoaHandler = (ctx: Context) => unknown;

export interface KoaParts {
  readonly app: Koa;
  readonly world: World;
  readonly handler: KoaHandler;
  protect(handler: KoaHandler, overrides?: RouteOptions<Context>): Middleware;
}

export type KoaMount = (parts: KoaParts) => Mounting;

export async function startKoa(mount: KoaMount, world: World): Promise<Served> {
  const app = new Koa();
  app.silent = true;
  const { service } = world;
  const protectOne =
    service && koaProtect(service.latchkey, { tenant: (ctx: Context) => ctx.get("x-tenant") });
  const protect: KoaParts["protect"] = (handler, overrides) =>
    service === null || protectOne === null
      ? async (ctx) => void (await handler(ctx))
      : protectOne(operationOf(world, service), handler, overrides);
  const handler: KoaHandler = async (ctx) => answerOn(ctx, await world.run(parsedBody(ctx)));
  const mounted = await mount({ app, world, handler, protect });
  return withDefaults(mounted, () => app.callback());
}

/** Of a parser, where there is one. Latchkey parses where there is none, and then the app without it sees nothing. */
function parsedBody({ request }: Context): unknown {
  return "rawBody" in request ? (request as { readonly body?: unknown }).body : undefined;
}

function answerOn(ctx: Context, { status, headers, body }: Awaited<ReturnType<World["run"]>>): void {
  ctx.status = status;
  ctx.set(headers);
  if (body.kind === "none") return;
  if (body.kind !== "json") ctx.type = "text/plain";
  if (body.kind === "json") ctx.body = body.value;
  else ctx.body = body.kind === "text" ? body.text : Readable.from(body.chunks);
}

/** Middleware on every route, then the protected one. */
export function koaBefore(middleware: () => readonly Middleware[]): KoaMount {
  return ({ app, protect, handler }) => {
    for (const each of [...middleware(), protect(handler)]) app.use(each);
  };
}
