/** The routes of Hono, which it lists in the order of registration. Nothing that Latchkey returns is middleware of it. */
import { isFields, type TableEntry, takesNext, textAt } from "./route-table.ts";

/** Null: it is no app of Hono. */
export function honoTable(app: unknown): readonly TableEntry[] | null {
  if (!isFields(app) || !Array.isArray(app.routes) || typeof app.fetch !== "function") return null;
  return app.routes.flatMap((route: unknown): readonly TableEntry[] => {
    const [method, path] = [textAt(route, "method"), textAt(route, "path")];
    if (method === null || path === null || !isFields(route)) return [];
    const handlers = [innermost(route.handler)];
    const handsOn = takesNext(handlers, 2);
    // Hono lists middleware alike; its own `inspectRoutes`, too, tells it apart by whether it takes `next`.
    return method === "ALL" && handsOn ? [] : [{ kind: "route", methods: [method], path, handlers, handsOn }];
  });
}

/** Around the handlers of an app with an error handler of its own, when another app takes them in. */
const composed = "__COMPOSED_HANDLER";

function innermost(handler: unknown): unknown {
  const inner = isFields(handler) ? handler[composed] : undefined;
  return inner === undefined ? handler : innermost(inner);
}
