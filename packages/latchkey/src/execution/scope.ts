/** The scope in which a key is unique. */
import { createHash } from "node:crypto";
import type { Operation } from "../operations/operation.ts";

/** Longer paths are hashed: indexes of some databases allow only 2,700 bytes. */
const maxLength = 200;

/**
 * The scope of a submission's record.
 *
 * @param path of the HTTP request, without query; null: there is none
 * @throws {TypeError} for `keyScope: "path"` without a path.
 */
export function scopeOf({ name, settings }: Operation, path: string | null = null): string {
  if (settings.keyScope !== "path") return settings.keyScope === "tenant" ? "*" : name;
  if (path === null) {
    throw new TypeError(
      `Operation ${name} has keyScope "path", and only HTTP requests have a path. For other work use an operation with ` +
        'keyScope "operation".',
    );
  }
  return scopeOfPath(name, path);
}

/**
 * The scope of an operation's records for a path.
 *
 * @param path as returned by `scopePath`
 */
export function scopeOfPath(operation: string, path: string): string {
  if (path.length <= maxLength) return `${operation} ${path}`;
  return `${operation} sha256:${createHash("sha256").update(path).digest("hex")}`;
}

/** Whether a scope is one of this operation's under `keyScope: "path"`. */
export function isPathScope(operation: string, scope: string): boolean {
  return scope.startsWith(`${operation} `);
}

/** Path and query of a target. A client that uses the server as a proxy sends the origin, too. */
export function originForm(target: string): string {
  if (target.startsWith("/")) return target;
  const origin = /^[a-z][a-z\d+.-]*:\/\/[^/?#]*/iu.exec(target)?.[0];
  if (origin === undefined) return target;
  const rest = target.slice(origin.length);
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/**
 * The path of a key under `keyScope: "path"`. Servers, proxies and clients may write one path in several ways: a retry with
 * another spelling must not count as new.
 */
export function scopePath(target: string): string {
  const path = target.split("?", 1)[0] ?? "";
  const plain = path.includes("%") ? path.replace(/%[\da-f]{2}/giu, decodeUnreserved) : path;
  let end = plain.length;
  while (end > 1 && plain[end - 1] === "/") end -= 1;
  return plain.slice(0, end);
}

/** RFC 3986, 6.2.2: an unreserved character is the same with and without encoding. */
function decodeUnreserved(encoded: string): string {
  const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
  return /[\w.~-]/u.test(character) ? character : encoded.toUpperCase();
}
