/** The routes of Fastify 5. Its table cannot be read, so routes are collected as they are registered. */
import { subscribe } from "node:diagnostics_channel";
import { isFields, listAt, type TableEntry, textAt } from "./route-table.ts";

type Fields = Readonly<Record<PropertyKey, unknown>>;

interface WatchedApp {
  /** The options of registered routes; later hooks may still change them. */
  readonly routes: Fields[];
  ready: boolean;
}

const watched = new WeakMap<object, WatchedApp>();
let watching = false;

/** Collects the routes of every Fastify instance that is created from now on. */
export function watchFastify(): void {
  if (watching) return;
  watching = true;
  subscribe("fastify.initialization", (message) => {
    const { fastify } = message as { readonly fastify?: unknown };
    if (!isFields(fastify) || typeof fastify.addHook !== "function") return;
    const app: WatchedApp = { routes: [], ready: false };
    watched.set(fastify, app);
    const add = (name: string, hook: (...args: readonly unknown[]) => void) =>
      Reflect.apply(fastify.addHook as () => void, fastify, [name, hook]);
    add("onRoute", (route) => isFields(route) && app.routes.push(route));
    add("onReady", (done) => {
      app.ready = true;
      if (typeof done === "function") done();
    });
  });
}

/**
 * Null: not an instance of Fastify.
 *
 * @throws {TypeError} when it is not ready, or was created before `watchFastify` was called.
 */
export function fastifyTable(app: unknown): readonly TableEntry[] | null {
  if (!isFields(app) || typeof app.addHook !== "function" || typeof app.printRoutes !== "function")
    return null;
  const found = watchedOf(app);
  if (found === null) {
    throw new TypeError(
      "The routes of this Fastify app are unknown: it was created before `latchkey/testing` was imported. Import that first",
    );
  }
  if (!found.ready)
    throw new TypeError("This Fastify app is not ready: `await app.ready()` registers its plugins");
  return found.routes.map((route) => {
    const methods = listAt(route, "method");
    const { handler } = route;
    return {
      kind: "route",
      methods: (methods.length > 0 ? methods : [route.method]).map(String),
      path: textAt(route, "url") ?? textAt(route, "path") ?? "",
      handlers: [handler],
      callsNext: null,
    };
  });
}

/** Plugins receive an object that inherits from the app. */
function watchedOf(app: object): WatchedApp | null {
  for (let at: object | null = app; at !== null; at = Object.getPrototypeOf(at)) {
    const found = watched.get(at);
    if (found !== undefined) return found;
  }
  return null;
}
