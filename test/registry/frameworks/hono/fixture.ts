import { getRequestListener } from "@hono/node-server";
import { type Context, type Handler, Hono } from "hono";
import { honoProtect, honoServe, honoStatus } from "latchkey/hono";
import type { FrontEndFactory, FrontEndParts } from "../../../fixture/http/front-end.ts";
import { callOf as callOfRequest, responseOf } from "../../../fixture/http/web-reply.ts";
import {
  type Call,
  failure,
  notFound,
  type Route,
  statusPath,
  tenantRequired,
} from "../../../fixture/route.ts";

export const frontEnd: FrontEndFactory = async (parts) => {
  const app = new Hono();
  mount(app, parts);
  app.notFound(() => responseOf(notFound));
  app.onError((error) => {
    parts.report(error);
    return responseOf(failure(error));
  });
  return getRequestListener(app.fetch);
};

function mount<Tx>(app: Hono, { latchkey, routes }: FrontEndParts<Tx>): void {
  const options = {
    tenant: (c: Context) => c.req.header("X-Tenant"),
    principal: (c: Context) => c.req.header("X-Principal") || null,
    statusPath,
  };
  const protect = honoProtect(latchkey, options);
  const serve = honoServe(latchkey, options);
  const status = honoStatus(latchkey, options);
  const handlerOf = (route: Route<Tx>): Handler => {
    switch (route.execution) {
      case "transaction":
        return protect(route.operation, async (c, context) =>
          responseOf(await route.handle(callOf(c), context)),
        );
      case "lease":
        return protect(route.operation, async (c, context) =>
          responseOf(await route.handle(callOf(c), context)),
        );
      case "served":
        return serve(route.operation, (c) => route.toInput(callOf(c)));
      case "deferred":
        return serve(route.operation, (c) => route.toInput(callOf(c)));
      case "status":
        return status;
      case "none":
        return async (c) => responseOf(await route.handle(callOf(c)));
      default:
        return route satisfies never;
    }
  };
  for (const route of routes) {
    const path = route.path.replaceAll(/\{(\w+)\}/gu, ":$1");
    const open = route.execution === "none" && route.open;
    const handler = handlerOf(route);
    app.on(route.method, path, async (c, next) => {
      if (!open && !c.req.header("X-Tenant")) return responseOf(tenantRequired);
      return handler(c, next);
    });
  }
}

function callOf(c: Context): Call {
  return callOfRequest(c.req.raw, c.req.param());
}
