/** Lists the state-changing routes of an app, protected or not. */
import { expressTable } from "./express-table.ts";
import { fastifyTable } from "./fastify-table.ts";
import { honoTable } from "./hono-table.ts";
import { koaTable } from "./koa-table.ts";
import { nestTable } from "./nest-table.ts";
import { type FoundRoute, readTable, type TableEntry } from "./route-table.ts";

export interface AuditedRoute {
  readonly method: string;
  readonly path: string;
  readonly status: "protected" | "excepted" | "unprotected";
  /** The operation that protects the route; null: none does. */
  readonly operation: string | null;
  /** Why the route's handlers are unknown; null: they are known. */
  readonly opaque: string | null;
}

export interface Audit {
  readonly routes: readonly AuditedRoute[];
  /** Exceptions that match no unprotected route. */
  readonly unused: readonly string[];
}

/** Nest first, because it contains an Express or Fastify app. */
const readers: readonly ((app: unknown) => readonly TableEntry[] | null)[] = [
  nestTable,
  fastifyTable,
  honoTable,
  koaTable,
  expressTable,
];

export function isApp(value: unknown): boolean {
  try {
    return readers.some((read) => read(value) !== null);
  } catch {
    // It was recognised but cannot be read yet.
    return true;
  }
}

/** @throws {TypeError} for a value that is not an app of Express, Fastify, Hono, Koa or Nest, or that cannot be read yet. */
export function routesOf(app: unknown): readonly FoundRoute[] {
  for (const read of readers) {
    const table = read(app);
    if (table !== null) return readTable(table);
  }
  throw new TypeError("Not an app of Express, Fastify, Hono, Koa or Nest, nor a router of Express or Koa");
}

/**
 * @param except `POST /login`, `/webhooks/*` (every method) or `DELETE *`; `*` stands for any text
 * @throws {TypeError} for a malformed exception.
 */
export function auditOf(found: readonly FoundRoute[], except: readonly string[]): Audit {
  const exceptions = except.map((text) => ({ text, fits: exceptionOf(text), used: false }));
  const routes = found.map((route): AuditedRoute => {
    const { method, path, protection, opaque } = route;
    if (protection !== null)
      return { method, path, status: "protected", operation: protection.operation, opaque };
    const fitting = exceptions.filter(({ fits }) => fits(route));
    for (const one of fitting) one.used = true;
    const status = fitting.length > 0 ? "excepted" : "unprotected";
    return { method, path, status, operation: null, opaque };
  });
  return { routes, unused: exceptions.filter(({ used }) => !used).map(({ text }) => text) };
}

function exceptionOf(text: string): (route: Pick<FoundRoute, "method" | "path">) => boolean {
  const [, method, path] = /^(?:([A-Za-z*-]+)\s+)?([/*].*)$/u.exec(text.trim()) ?? [];
  if (path === undefined) {
    throw new TypeError(
      `An exception has the form "POST /login", "/webhooks/*" or "DELETE *" (got ${JSON.stringify(text)})`,
    );
  }
  const [fitsMethod, fitsPath] = [wildcard((method ?? "*").toUpperCase()), wildcard(path)];
  return (route) => fitsMethod.test(route.method) && fitsPath.test(route.path);
}

function wildcard(text: string): RegExp {
  const parts = text.split("*").map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/gu, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "u");
}
