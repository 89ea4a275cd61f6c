import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { nodeProtect } from "../../../../packages/latchkey/src/http/node.ts";
import type { RouteOptions } from "../../../../packages/latchkey/src/http/protocol/http-options.ts";
import { type Served, serveListener } from "../../../neighbours/served.ts";
import { operationOf, type World } from "../../../neighbours/world.ts";

export type NodeHandler = (req: IncomingMessage, res: ServerResponse) => unknown;
type NodeMiddleware = (req: never, res: never, next: (error?: unknown) => void) => void;

export interface NodeParts {
  readonly world: World;
  readonly handler: NodeHandler;
  protect(handler: NodeHandler, overrides?: RouteOptions<IncomingMessage>): NodeHandler;
}

/** Returns what listens, or the app however it is asked. */
export type NodeMount = (parts: NodeParts) => RequestListener | Served | Promise<RequestListener | Served>;

export async function startNode(mount: NodeMount, world: World): Promise<Served> {
  const { service } = world;
  const protectOne =
    service &&
    nodeProtect(service.latchkey, { tenant: ({ headers }: IncomingMessage) => String(headers["x-tenant"]) });
  const protect: NodeParts["protect"] = (handler, overrides) =>
    service === null || protectOne === null
      ? handler
      : protectOne(operationOf(world, service), (req, res) => handler(req, res), overrides);
  const handler: NodeHandler = async (_req, res) => {
    const { status, headers, body } = await world.run(null);
    const type = body.kind === "json" ? "application/json" : "text/plain";
    res.writeHead(status, body.kind === "none" ? headers : { ...headers, "Content-Type": type });
    if (body.kind === "json") res.end(JSON.stringify(body.value));
    else if (body.kind === "text") res.end(body.text);
    else if (body.kind === "stream") Readable.from(body.chunks).pipe(res);
    else res.end();
  };
  const mounted = await mount({ world, handler, protect });
  return typeof mounted === "function" ? serveListener(mounted) : mounted;
}

/** Middleware in connect's style, then the protected handler. */
export function nodeBefore(makeMiddleware: () => readonly unknown[]): NodeMount {
  return ({ protect, handler }) => {
    const middleware = makeMiddleware();
    const handle = protect(handler);
    return (req, res) => {
      const rest = [...middleware] as NodeMiddleware[];
      const next = (): void => {
        const current = rest.shift();
        if (current !== undefined) current(req as never, res as never, next);
        else Promise.resolve(handle(req, res)).catch(() => res.destroy());
      };
      next();
    };
  };
}
