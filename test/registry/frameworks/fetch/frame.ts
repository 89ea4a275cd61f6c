import { getRequestListener } from "@hono/node-server";
import { fetchProtect } from "../../../../packages/latchkey/src/http/fetch/fetch.ts";
import type { RouteOptions } from "../../../../packages/latchkey/src/http/protocol/http-options.ts";
import { type Served, serveListener } from "../../../neighbours/served.ts";
import { type Answer, operationOf, type World } from "../../../neighbours/world.ts";

export type FetchRoute = (request: Request) => Response | Promise<Response>;

export interface FetchParts {
  readonly world: World;
  readonly handler: FetchRoute;
  protect(handler: FetchRoute, overrides?: RouteOptions<Request>): FetchRoute;
}

/** Returns what answers every request, or the app however it is asked. */
export type FetchMount = (parts: FetchParts) => FetchRoute | Served | Promise<FetchRoute | Served>;

export async function startFetch(mount: FetchMount, world: World): Promise<Served> {
  const { service } = world;
  const protectOne =
    service && fetchProtect(service.latchkey, { tenant: ({ headers }: Request) => headers.get("x-tenant") });
  const protect: FetchParts["protect"] = (handler, overrides) =>
    service === null || protectOne === null
      ? handler
      : protectOne(operationOf(world, service), (request) => handler(request), overrides);
  const handler: FetchRoute = async (request) => responseOf(await world.run(await request.text()));
  const mounted = await mount({ world, handler, protect });
  return typeof mounted === "function" ? serveListener(getRequestListener(mounted)) : mounted;
}

export function responseOf({ status, headers, body }: Answer): Response {
  const text = { ...headers, "Content-Type": "text/plain" };
  if (body.kind === "json") return Response.json(body.value, { status, headers });
  if (body.kind === "text") return new Response(body.text, { status, headers: text });
  if (body.kind === "none") return new Response(null, { status, headers });
  const encoded = body.chunks.map((chunk) => new TextEncoder().encode(chunk));
  return new Response(ReadableStream.from(encoded), { status, headers: text });
}
