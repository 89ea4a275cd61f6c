/** The common form of frameworks' route tables, and which of their routes are protected. */
import { type Protection, protectionOf } from "../protocol/protection.ts";

/** Entries are in the order in which a request reaches them. */
export type TableEntry =
  | {
      readonly kind: "route";
      /** In capitals; `ALL` for every method. */
      readonly methods: readonly string[];
      /** As in the framework, with the paths of all mounts. */
      readonly path: string;
      /** The route's own handlers, and those that the framework puts around them. */
      readonly handlers: readonly unknown[];
      /**
       * Whether the next route with this method and path also gets the request. Null: such routes differ in something else, such
       * as a version, and are listed separately.
       */
      readonly callsNext: boolean | null;
    }
  | {
      readonly kind: "middleware";
      /** Whether the middleware runs for a path. Null: the path is unknown. */
      readonly covers: (path: string | null) => boolean;
      readonly handlers: readonly unknown[];
    }
  /** Something whose own routes cannot be read. */
  | { readonly kind: "opaque"; readonly path: string; readonly what: string };

export interface FoundRoute {
  readonly method: string;
  readonly path: string;
  /** Null: no handler of Latchkey's runs for the route. */
  readonly protection: Protection | null;
  /** Why the route's handlers are unknown; null: they are known. */
  readonly opaque: string | null;
}

/** Methods that ask for no change (RFC 9110, WebDAV, and the QUERY method). */
const safeMethods = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "SEARCH", "PROPFIND", "REPORT"]);

/** The methods for which a route for all methods must be protected. */
const everyMethod = ["POST", "PUT", "PATCH", "DELETE"];

export function isStateChanging(method: string): boolean {
  return !safeMethods.has(method);
}

/** The state-changing routes in order; if several have the same method and path, the one that answers. */
export function readTable(entries: readonly TableEntry[]): readonly FoundRoute[] {
  const before: Extract<TableEntry, { kind: "middleware" }>[] = [];
  const found: FoundRoute[] = [];
  /** The index of the first route of each method and path, and whether it answers. */
  const known = new Map<string, { at: number; answers: boolean }>();
  for (const entry of entries) {
    if (entry.kind === "middleware") before.push(entry);
    else if (entry.kind === "opaque") {
      found.push({ method: "ALL", path: entry.path, protection: null, opaque: entry.what });
    } else {
      for (const method of methodsOf(entry.methods)) {
        const name = `${method} ${entry.path}`;
        const protection =
          protectionIn(entry.handlers, method) ?? protectionBefore(before, entry.path, method);
        const route: FoundRoute = { method, path: entry.path, protection, opaque: null };
        const first = entry.callsNext === null ? undefined : known.get(name);
        if (first?.answers) continue;
        known.set(name, {
          at: first?.at ?? found.length,
          answers: protection !== null || entry.callsNext !== true,
        });
        if (first === undefined) found.push(route);
        else found[first.at] = route;
      }
    }
  }
  return found;
}

function methodsOf(methods: readonly string[]): readonly string[] {
  const changing = [...new Set(methods.map((method) => method.toUpperCase()))].filter(isStateChanging);
  return everyMethod.every((one) => changing.includes(one)) ? ["ALL"] : changing;
}

function protectionIn(handlers: readonly unknown[], method: string): Protection | null {
  for (const handler of handlers) {
    const protection = protectionOf(handler);
    if (protection !== null && isFor(protection, method)) return protection;
  }
  return null;
}

function protectionBefore(
  before: readonly Extract<TableEntry, { kind: "middleware" }>[],
  path: string,
  method: string,
): Protection | null {
  const covering = before.filter(({ covers }) => covers(samplePath(path)));
  return protectionIn(
    covering.flatMap(({ handlers }) => handlers),
    method,
  );
}

function isFor({ methods }: Protection, method: string): boolean {
  if (methods === null) return true;
  return method === "ALL" ? everyMethod.every((one) => methods.includes(one)) : methods.includes(method);
}

/** Whether the last handler has a parameter `next`, which is at this position. */
export function takesNext(handlers: readonly unknown[], parameter: number): boolean {
  const last = handlers.at(-1);
  return typeof last === "function" && last.length >= parameter;
}

/** An example of a path that matches; null: the pattern is too complex. */
export function samplePath(path: string): string | null {
  const sample = path
    .replaceAll(/\{([^{}]*)\}/gu, "$1")
    .replaceAll(/:\w+(?:\([^()]*\))?[?+*]?/gu, "x")
    .replaceAll(/\*\w*/gu, "x");
  return /^[\w\-.~/%@!$&',;=]*$/u.test(sample) ? sample : null;
}

/** Joins paths without doubled slashes. */
export function joinPaths(...paths: readonly string[]): string {
  const joined = paths.filter((path) => path !== "" && path !== "/").join("/");
  return `/${joined}`.replaceAll(/\/{2,}/gu, "/");
}

export function isFields(value: unknown): value is Readonly<Record<PropertyKey, unknown>> {
  return (typeof value === "object" || typeof value === "function") && value !== null;
}

/** The array under a name; empty if there is none. */
export function listAt(value: unknown, name: PropertyKey): readonly unknown[] {
  const found = isFields(value) ? value[name] : undefined;
  return Array.isArray(found) ? found : [];
}

export function textAt(value: unknown, name: PropertyKey): string | null {
  const found = isFields(value) ? value[name] : undefined;
  return typeof found === "string" ? found : null;
}
