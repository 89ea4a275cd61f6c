import { getRequestListener } from "@hono/node-server";
import { fetchProtect, fetchServe, fetchStatus } from "latchkey/fetch";
import type { FrontEndFactory, FrontEndParts } from "../../../fixture/http/front-end.ts";
import { callOf, responseOf } from "../../../fixture/http/web-reply.ts";
import { failure, notFound, type Route, statusPath, tenantRequired } from "../../../fixture/route.ts";

type Params = Readonly<Record<string, string>>;
type Handler = (request: Request) => Promise<Response>;

/** Bare handlers from `Request` to `Response`; the server below them is Hono's, which no handler sees. */
export const frontEnd: FrontEndFactory = async (parts) => {
  const serve = handlerOfAll(parts);
  return getRequestListener(async (request) => {
    try {
      return await serve(request);
    } catch (error) {
      parts.report(error);
      return responseOf(failure(error));
    }
  });
};

function handlerOfAll<Tx>({ latchkey, routes }: FrontEndParts<Tx>): Handler {
  const options = {
    tenant: (request: Request) => request.headers.get("X-Tenant"),
    principal: (request: Request) => request.headers.get("X-Principal") || null,
    statusPath,
  };
  const protect = fetchProtect(latchkey, options);
  const serve = fetchServe(latchkey, options);
  const status = fetchStatus(latchkey, options);
  const handlerOf = (route: Route<Tx>, params: (request: Request) => Params): Handler => {
    switch (route.execution) {
      case "transaction":
        return protect(route.operation, async (request, context) =>
          responseOf(await route.handle(callOf(request, params(request)), context)),
        );
      case "lease":
        return protect(route.operation, async (request, context) =>
          responseOf(await route.handle(callOf(request, params(request)), context)),
        );
      case "served":
        return serve(route.operation, (request) => route.toInput(callOf(request, params(request))));
      case "deferred":
        return serve(route.operation, (request) => route.toInput(callOf(request, params(request))));
      case "status":
        return status;
      case "none":
        return async (request) => responseOf(await route.handle(callOf(request, params(request))));
      default:
        return route satisfies never;
    }
  };
  const entries = routes.map((route) => {
    const match = matcher(route.path);
    const open = route.execution === "none" && route.open;
    return { route, match, open, handle: handlerOf(route, (request) => match(request) ?? {}) };
  });
  return async (request) => {
    const entry = entries.find(({ route, match }) => route.method === request.method && match(request));
    if (entry === undefined) return responseOf(notFound);
    if (!entry.open && !request.headers.get("X-Tenant")) return responseOf(tenantRequired);
    return entry.handle(request);
  };
}

/** What stands in the places of a path's braces; null when the path is another one. */
function matcher(path: string): (request: Request) => Params | null {
  const pattern = new RegExp(`^${path.replaceAll(/\{(\w+)\}/gu, "(?<$1>[^/]+)")}$`, "u");
  return (request) => {
    const match = pattern.exec(new URL(request.url).pathname);
    if (match === null) return null;
    const groups = Object.entries(match.groups ?? {});
    return Object.fromEntries(groups.map(([name, value]) => [name, decodeURIComponent(value)]));
  };
}
