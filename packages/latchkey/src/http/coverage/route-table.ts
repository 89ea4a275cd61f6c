/** What is read out of a framework's route table, and which of its routes are protected. */
import { type Protection, protectionOf } from "../protocol/protection.ts";

/** In the order in which a request meets them. */
export type TableEntry =
  | {
      readonly kind: "route";
      /** In capitals; `ALL` for every method. */
      readonly methods: readonly string[];
      /** As the framework has it, below all mounts. */
      readonly path: string;
      /** What runs for it: its own handlers, and what the framework puts around them. */
      readonly handlers: readonly unknown[];
      /**
       * Whether the next route of this method and path gets the request, too. Null: routes that look alike differ in something
       * else, such as a version, and each is one of its own.
       */
      readonly handsOn: boolean | null;
    }
  | {
      readonly kind: "middleware";
      /** Whether it runs for a path, before everything after it. Null: a path that cannot be told. */
      readonly covers: (path: string | null) => boolean;
      readonly handlers: readonly unknown[];
    }
  /** Something with routes of its own that cannot be looked into. */
  | { readonly kind: "opaque"; readonly path: string; readonly what: string };

export interface FoundRoute {
  readonly method: string;
  readonly path: string;
  /** Null: nothing of Latchkey's runs for it. */
  readonly protection: Protection | null;
  /** Why it is not known what runs; null: it is. */
  readonly opaque: string | null;
}

/** Methods that ask for no change (RFC 9110, WebDAV, and the QUERY method). */
const safeMethods = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "SEARCH", "PROPFIND", "REPORT"]);

/** What a route for all methods has to be protected for. */
const everyMethod = ["POST", "PUT", "PATCH", "DELETE"];

export function isStateChanging(method: string): boolean {
  return !safeMethods.has(method);
}

/** The state-changing routes, in order; of those that share a method and a path, the one that answers. */
export function readTable(entries: readonly TableEntry[]): readonly FoundRoute[] {
  const before: Extract<TableEntry, { kind: "middleware" }>[] = [];
  const found: FoundRoute[] = [];
  /** Where the first of a method and path is, and whether it answers. */
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
        const first = entry.handsOn === null ? undefined : known.get(name);
        if (first?.answers) continue;
        known.set(name, {
          at: first?.at ?? found.length,
          answers: protection !== null || entry.handsOn !== true,
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

/** Whether the last of the handlers takes a `next`, which is the parameter of this number. */
export function takesNext(handlers: readonly unknown[], parameter: number): boolean {
  const last = handlers.at(-1);
  return typeof last === "function" && last.length >= parameter;
}

/** A path that a request could have; null: it is a pattern without an obvious one. */
export function samplePath(path: string): string | null {
  const sample = path
    .replaceAll(/\{([^{}]*)\}/gu, "$1")
    .replaceAll(/:\w+(?:\([^()]*\))?[?+*]?/gu, "x")
    .replaceAll(/\*\w*/gu, "x");
  return /^[\w\-.~/%@!$&',;=]*$/u.test(sample) ? sample : null;
}

/** Two paths, one below the other, without doubled slashes. */
export function joinPaths(...paths: readonly string[]): string {
  const joined = paths.filter((path) => path !== "" && path !== "/").join("/");
  return `/${joined}`.replaceAll(/\/{2,}/gu, "/");
}

export function isFields(value: unknown): value is Readonly<Record<PropertyKey, unknown>> {
  return (typeof value === "object" || typeof value === "function") && value !== null;
}

/** The list under a name; empty where there is none. */
export function listAt(value: unknown, name: PropertyKey): readonly unknown[] {
  const found = isFields(value) ? value[name] : undefined;
  return Array.isArray(found) ? found : [];
}

export function textAt(value: unknown, name: PropertyKey): string | null {
  const found = isFields(value) ? value[name] : undefined;
  return typeof found === "string" ? found : null;
}
