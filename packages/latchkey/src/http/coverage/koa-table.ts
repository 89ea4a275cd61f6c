/** The routes of `@koa/router` and `koa-router` in a Koa app. None of Latchkey's handlers calls `next`. */
import { isFields, listAt, type TableEntry, takesNext, textAt } from "./route-table.ts";

type Fields = Readonly<Record<PropertyKey, unknown>>;

/** Null: neither an app nor a router. */
export function koaTable(app: unknown): readonly TableEntry[] | null {
  if (!isFields(app)) return null;
  if (Array.isArray(app.stack) && typeof app.routes === "function") return routerTable(app);
  if (!Array.isArray(app.middleware) || typeof app.callback !== "function") return null;
  return app.middleware.flatMap((middleware: unknown) => {
    const router = isFields(middleware) ? middleware.router : undefined;
    return isFields(router) && Array.isArray(router.stack) ? routerTable(router) : [];
  });
}

/** Layers of the router's middleware have no methods. */
function routerTable(router: Fields): readonly TableEntry[] {
  return listAt(router, "stack")
    .filter(isFields)
    .map((layer) => {
      const handlers = listAt(layer, "stack");
      const methods = listAt(layer, "methods").map(String);
      const path = textAt(layer, "path") ?? String(layer.path);
      return { kind: "route", methods, path, handlers, callsNext: takesNext(handlers, 2) };
    });
}
