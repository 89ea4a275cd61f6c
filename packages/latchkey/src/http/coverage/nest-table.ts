/**
 * The controllers of a Nest app. Nest does not document the metadata of its decorators; the names have not changed since
 * Nest 5, and the tests run on 11 and 12.
 */
import { expressTable } from "./express-table.ts";
import { isFields, joinPaths, type TableEntry, textAt } from "./route-table.ts";

type Fields = Readonly<Record<PropertyKey, unknown>>;

/** Indexed by Nest's `RequestMethod`. */
const methodNames = [
  "GET",
  "POST",
  "PUT",
  "DELETE",
  "PATCH",
  "ALL",
  "OPTIONS",
  "HEAD",
  "SEARCH",
  "PROPFIND",
  "PROPPATCH",
  "MKCOL",
  "COPY",
  "MOVE",
  "LOCK",
  "UNLOCK",
];

/** Null: not an app of Nest. */
export function nestTable(app: unknown): readonly TableEntry[] | null {
  if (!isFields(app) || typeof app.getHttpAdapter !== "function" || !isFields(app.container)) return null;
  const modules = valuesOf(call(app.container, "getModules"));
  const around = globalInterceptors(app.config);
  const routes = modules.flatMap((module) =>
    valuesOf(module.controllers).flatMap(({ metatype }) =>
      typeof metatype === "function" ? controllerEntries(app, module, metatype, around) : [],
    ),
  );
  return [...middlewareBefore(app), ...routes];
}

/** Middleware of `app.use` on Express, before Nest registered its routes. */
function middlewareBefore(app: Fields): readonly TableEntry[] {
  const all = expressTable(call(call(app, "getHttpAdapter"), "getInstance")) ?? [];
  const first = all.findIndex(({ kind }) => kind === "route");
  return all.slice(0, first === -1 ? all.length : first).filter(({ kind }) => kind === "middleware");
}

function call(target: unknown, method: string): unknown {
  const found = isFields(target) ? target[method] : undefined;
  return typeof found === "function" ? Reflect.apply(found, target, []) : undefined;
}

function valuesOf(map: unknown): readonly Fields[] {
  return map instanceof Map ? [...map.values()].filter(isFields) : [];
}

/** Interceptors of `useGlobalInterceptors` and of `APP_INTERCEPTOR`, whose classes Nest keeps in wrappers. */
function globalInterceptors(config: unknown): readonly unknown[] {
  return [
    ...listOf(call(config, "getGlobalInterceptors")),
    ...listOf(call(config, "getGlobalRequestInterceptors")).flatMap((wrapper) =>
      isFields(wrapper) ? [wrapper.instance, wrapper.metatype] : [],
    ),
  ];
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function controllerEntries(
  app: Fields,
  module: Fields,
  controller: object,
  around: readonly unknown[],
): readonly TableEntry[] {
  const prototype: unknown = Reflect.get(controller, "prototype");
  return methodsOf(prototype).flatMap((method) => {
    const [paths, verb] = [metadata("path", method), metadata("method", method)];
    if (paths === undefined || typeof verb !== "number") return [];
    const interceptors = [method, controller].flatMap((target) =>
      listOf(metadata("__interceptors__", target)),
    );
    const handlers = [...interceptors, ...around];
    return prefixesOf(app, module, controller, method).flatMap((prefix) =>
      [paths].flat().map((path) => ({
        kind: "route" as const,
        methods: [methodNames[verb] ?? "ALL"],
        path: joinPaths(prefix, String(path)),
        handlers,
        callsNext: null,
      })),
    );
  });
}

/** Methods of the class and of the classes that it extends. */
function methodsOf(prototype: unknown): readonly object[] {
  const found = new Map<PropertyKey, object>();
  for (let at = prototype; isFields(at) && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const name of Reflect.ownKeys(at)) {
      const value: unknown = Object.getOwnPropertyDescriptor(at, name)?.value;
      if (name !== "constructor" && typeof value === "function" && !found.has(name)) found.set(name, value);
    }
  }
  return [...found.values()];
}

function metadata(key: string, target: object): unknown {
  const read: unknown = Reflect.get(Reflect, "getMetadata");
  return typeof read === "function" ? Reflect.apply(read, Reflect, [key, target]) : undefined;
}

function prefixesOf(
  app: Fields,
  { metatype }: Fields,
  controller: object,
  method: object,
): readonly string[] {
  const global = call(app.config, "getGlobalPrefix");
  const versions = versionsOf(
    app.config,
    metadata("__version__", method) ?? metadata("__version__", controller),
  );
  const own = [metadata("path", controller) ?? ""].flat();
  return versions.flatMap((version) =>
    own.map((path) =>
      joinPaths(String(global ?? ""), version, modulePath(app.container, metatype), String(path)),
    ),
  );
}

function modulePath(container: unknown, metatype: unknown): string {
  if (typeof metatype !== "function") return "";
  const modules = call(container, "getModules");
  const id = isFields(modules) ? modules.applicationId : undefined;
  const path = metadata(`__module_path__${String(id)}`, metatype) ?? metadata("__module_path__", metatype);
  return typeof path === "string" ? path : "";
}

/** Only `VersioningType.URI`, which is 0, puts versions in the path. */
function versionsOf(config: unknown, version: unknown): readonly string[] {
  const versioning = call(config, "getVersioning");
  const given = version ?? (isFields(versioning) ? versioning.defaultVersion : undefined);
  if (!isFields(versioning) || versioning.type !== 0 || given === undefined) return [""];
  const prefix = textAt(versioning, "prefix") ?? (versioning.prefix === false ? "" : "v");
  // A symbol stands for no version at all.
  return [given].flat().map((one) => (typeof one === "string" ? `${prefix}${one}` : ""));
}
