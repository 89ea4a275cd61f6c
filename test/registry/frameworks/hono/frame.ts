import { getRequestListener } from "@hono/node-server";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { honoProtect } from "../../../../packages/latchkey/src/http/hono/hono.ts";
import type { RouteOptions } from "../../../../packages/latchkey/src/http/protocol/http-options.ts";
import { type Mounting, type Served, withDefaults } from "../../../neighbours/served.ts";
import { operationOf, type World } from "../../../neighbours/world.ts";
import { responseOf } from "../fetch/frame.ts";

export type HonoHandler = (c: Context) => Response | Promise<Response>;

export interface HonoParts {
  readonly app: Hono;
  readonly world: World;
  readonly handler: HonoHandler;
  protect(handler: HonoHandler, overrides?: RouteOptions<Context>): HonoHandler;
}

export type HonoMount = (parts: HonoParts) => Mounting;

export async function startHono(mount: HonoMount, world: World): Promise<Served> {
  const app = new Hono();
  const { service } = world;
  const protectOne =
    service && honoProtect(service.latchkey, { tenant: (c: Context) => c.req.header("x-tenant") });
  const protect: HonoParts["protect"] = (handler, overrides) =>
    service === null || protectOne === null
      ? handler
      : protectOne(operationOf(world, service), async (c: Context) => handler(c), overrides);
  const handler: HonoHandler = async (c) => {
    const { status, headers, body } = await world.run(await c.req.text());
    if (body.kind === "json") return c.json(body.value, status as 201, { ...headers });
    if (body.kind === "text") return c.text(body.text, status as 200, { ...headers });
    // Not a bare Response, to which Hono gives no header that middleware has set with `c.header`.
    if (body.kind === "none") return c.body(null, status as 204, { ...headers });
    const stream = responseOf({ status: 200, headers: {}, body }).body;
    return c.body(stream as ReadableStream, status as 201, { ...headers, "Content-Type": "text/plain" });
  };
  const mounted = await mount({ app, world, handler, protect });
  return withDefaults(mounted, () => getRequestListener(app.fetch));
}

/** Middleware on every route, and the protected one. */
export function honoBefore(...middleware: readonly MiddlewareHandler[]): HonoMount {
  return ({ app, protect, handler }) => {
    app.use(...middleware);
    app.post("/run", protect(handler));
  };
}
