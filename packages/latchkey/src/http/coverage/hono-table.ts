/** The routes of Hono, in the order of registration. None of Latchkey's handlers is Hono middleware. */
import { isFields, type TableEntry, takesNext, textAt } from "./route-table.ts";

/** Null: not an app of Hono. */
export function honoTable(app: unknown): readonly TableEntry[] | null {
  if (!isFields(app) || !Array.isArray(app.routes) || typeof app.fetch !== "function") return null;
  return app.routes.flatMap((route: unknown): readonly TableEntry[] => {
    const [method, path] = [textAt(route, "method"), textAt(route, "path")];
    if (method === null || path === null || !isFields(route)) return [];
    const handlers = [innermost(route.handler)];
    const callsNext = takesNext(handlers, 2);
    // Hono lists middleware in the same way. Like its own `inspectRoutes`, recognise it by its parameter `next`.
    return method === "ALL" && callsNext
      ? []
      : [{ kind: "route", methods: [method], path, handlers, callsNext }];
  });
}

/** Hono's mark on the wrapper around handlers of a nested app that has its own error handler. */
const composed = "__COMPOSED_HANDLER";

function innermost(handler: unknown): unknown {
  const inner = isFields(handler) ? handler[composed] : undefined;
  return inner === undefined ? handler : innermost(inner);
}
