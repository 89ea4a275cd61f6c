/** The route table of Express 4 and 5, and of their routers. It is undocumented, but all route listers read it. */
import { isFields, joinPaths, listAt, samplePath, type TableEntry, takesNext } from "./route-table.ts";

type Fields = Readonly<Record<PropertyKey, unknown>>;

/** Null: not an app or router of Express. */
export function expressTable(app: unknown): readonly TableEntry[] | null {
  if (typeof app !== "function" || !isFields(app)) return null;
  if (Array.isArray(app.stack)) return tableOf(app, [""]);
  if (typeof app.handle !== "function" || typeof app.set !== "function") return null;
  return tableOf(routerOf(app), [""]);
}

/** Reading `app.router` throws in Express 4, which has no router before the first route. */
function routerOf(app: Fields): unknown {
  if (isFields(app._router)) return app._router;
  try {
    return app.router;
  } catch {
    return null;
  }
}

function tableOf(router: unknown, prefixes: readonly string[]): readonly TableEntry[] {
  return listAt(router, "stack").flatMap((layer) =>
    isFields(layer) ? prefixes.flatMap((prefix) => entriesOf(layer, prefix)) : [],
  );
}

function entriesOf(layer: Fields, prefix: string): readonly TableEntry[] {
  const { route, handle } = layer;
  if (isFields(route)) return routeEntries(route, prefix);
  const mounts = mountsOf(layer).map((mount) => joinPaths(prefix, mount));
  if (isFields(handle) && Array.isArray(handle.stack)) return tableOf(handle, mounts);
  if (layer.name === "mounted_app") {
    return mounts.map((path) => ({ kind: "opaque", path, what: "another Express app; audit it separately" }));
  }
  return [{ kind: "middleware", covers: coverageOf(layer, prefix), handlers: [handle] }];
}

function routeEntries(route: Fields, prefix: string): readonly TableEntry[] {
  const { path, methods } = route;
  const paths = [path].flat(Number.POSITIVE_INFINITY).map((one) => joinPaths(prefix, String(one)));
  const known = isFields(methods) ? Object.keys(methods).filter((method) => methods[method] === true) : [];
  const names = known.includes("_all") ? ["ALL"] : known;
  const layers = listAt(route, "stack").filter(isFields);
  const handlersOf = (name: string) =>
    layers.filter(({ method }) => method === undefined || method === name).map(({ handle }) => handle);
  return alike(names, handlersOf).flatMap((methods) => {
    const handlers = handlersOf(methods[0] ?? "");
    const callsNext = takesNext(handlers, 3);
    return paths.map((each) => ({ kind: "route", methods, path: each, handlers, callsNext }) as const);
  });
}

/** Groups methods with the same handlers into one route, because `app.all` makes a layer for each method. */
function alike(names: readonly string[], handlersOf: (name: string) => readonly unknown[]): string[][] {
  const groups: string[][] = [];
  for (const name of names) {
    const own = handlersOf(name);
    const group = groups.find(([first = ""]) => {
      const other = handlersOf(first);
      return other.length === own.length && other.every((handler, at) => handler === own[at]);
    });
    if (group === undefined) groups.push([name]);
    else group.push(name);
  }
  return groups;
}

/** Asks the middleware whether it matches, with the part of a request's path below its mounts. */
function coverageOf(layer: Fields, prefix: string): (path: string | null) => boolean {
  const around = samplePath(prefix)?.replace(/\/$/u, "") ?? null;
  return (path) => {
    if (isEverywhere(layer) && around === "") return true;
    if (
      path === null ||
      around === null ||
      (around !== "" && path !== around && !path.startsWith(`${around}/`))
    )
      return false;
    if (isEverywhere(layer)) return true;
    const { match } = layer;
    return (
      typeof match === "function" && Boolean(Reflect.apply(match, layer, [path.slice(around.length) || "/"]))
    );
  };
}

function isEverywhere({ slash, regexp }: Fields): boolean {
  return slash === true || (isFields(regexp) && regexp.fast_slash === true);
}

/** The paths under which a layer is mounted, as far as they can be determined. */
function mountsOf(layer: Fields): readonly string[] {
  if (isEverywhere(layer)) return [""];
  const { rawPath } = layer;
  if (rawPath !== undefined) return [rawPath].flat(Number.POSITIVE_INFINITY).map(String);
  return patternsOf(layer).flatMap(pathsOf);
}

/** Express 4 keeps the pattern; the first routers of Express 5 hide it in a closure, so it is observed during a match. */
function patternsOf(layer: Fields): readonly RegExp[] {
  const { regexp, match } = layer;
  if (regexp instanceof RegExp) return [regexp];
  if (typeof match !== "function") return [];
  const seen: RegExp[] = [];
  const own = Object.getOwnPropertyDescriptor(RegExp.prototype, "exec");
  const { exec } = RegExp.prototype;
  if (own === undefined) return [];
  const listen = function (this: RegExp, text: string) {
    if (text === probe) seen.push(this);
    return exec.call(this, text);
  };
  Object.defineProperty(RegExp.prototype, "exec", { ...own, value: listen });
  try {
    Reflect.apply(match, layer, [probe]);
  } finally {
    Object.defineProperty(RegExp.prototype, "exec", own);
  }
  return seen;
}

/** A path that no mount has. */
const probe = "latchkey audit";

/** `/^\/api\/?(?=\/|$)/` of Express 4, which has one for all paths, and `/^(?:\/api)(?:\/$)?(?=\/|$)/` of 5. */
function pathsOf({ source }: RegExp): readonly string[] {
  return source.split("|^").map((one) => {
    const inner = one
      .replace(/^\^/u, "")
      .replace(/\\\/\?\(\?=\\\/\|\$\)$/u, "")
      .replace(/^\(\?:(.*)\)\(\?:\\\/\$\)\?\(\?=\\\/\|\$\)$/u, "$1");
    const path = inner.replaceAll(/\((?:\?:)?\\?\/?\(?\[\^\\?\/\]\+\??\)?\)/gu, (group) =>
      group.startsWith("(?:") ? "/:param" : ":param",
    );
    const plain = path.replaceAll(/\\(.)/gu, "$1");
    return /[()[\]?*+|^$]/u.test(plain) ? `/{${source}}` : plain;
  });
}
