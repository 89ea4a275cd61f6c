/** What is kept of an answer: its status, its bytes, and the headers that belong to them. */

import { isTokenCharacter } from "../../fingerprint/characters.ts";
import type { Answer } from "../../operations/answer.ts";

export type HeaderEntry = readonly [name: string, value: string];

/** An HTTP answer on its way out. */
export interface Reply {
  readonly status: number;
  /** The reason phrase, where the handler chose one. It is never stored. */
  readonly statusText?: string;
  /** One entry per field line, in order. Framing (`Content-Length`, `Transfer-Encoding`, trailers) is the server's own business. */
  readonly headers: readonly HeaderEntry[];
  readonly body: Uint8Array;
  /** Whether the body could not be made, so that what is stored is without one. */
  readonly bodyMissing?: true;
}

const storedByDefault: readonly string[] = [
  "accept-patch",
  "accept-post",
  "accept-ranges",
  "allow",
  "cache-control",
  "content-digest",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-location",
  "content-md5",
  "content-range",
  "content-type",
  "deprecation",
  "digest",
  "etag",
  "expires",
  "last-modified",
  "link",
  "location",
  "preference-applied",
  "repr-digest",
  "retry-after",
  "stripe-should-retry",
  "sunset",
  "vary",
  "x-should-retry",
];

/** Headers of one connection, one moment or one caller: a replay that carried them would be wrong or unsafe. */
const neverStored: ReadonlySet<string> = new Set([
  "age",
  "authentication-info",
  "authorization",
  "connection",
  "content-length",
  "cookie",
  "date",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "server-timing",
  "set-cookie",
  "set-cookie2",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "www-authenticate",
  "b3",
  "request-id",
  "traceparent",
  "traceresponse",
  "tracestate",
  "x-amzn-trace-id",
  "x-cloud-trace-context",
  "x-correlation-id",
  "x-request-id",
  "x-trace-id",
]);
const neverStoredPrefixes: readonly string[] = ["access-control-", "x-b3-"];

/** Headers that describe bytes, and are untrue of an answer that has lost its own. */
const describingBytes: ReadonlySet<string> = new Set([
  "content-digest",
  "content-encoding",
  "content-md5",
  "content-range",
  "digest",
]);

/**
 * The names to store, in lower case: the usual ones and `added`.
 *
 * @throws {TypeError} for a name that is no header's, or of a header that must never be replayed.
 */
export function checkStoredHeaders(added: readonly string[]): ReadonlySet<string> {
  const names = added.map((name) => {
    const lower = String(name).toLowerCase();
    if (!isToken(lower)) throw new TypeError(`storedHeaders: ${JSON.stringify(name)} is not a header name`);
    if (neverStored.has(lower) || neverStoredPrefixes.some((prefix) => lower.startsWith(prefix))) {
      throw new TypeError(`storedHeaders: ${name} belongs to one caller or one moment and is never replayed`);
    }
    return lower;
  });
  return new Set([...storedByDefault, ...names]);
}

/** The answer without what HTTP says it does not have: framing, and a body where there can be none. */
export function withoutFraming(method: string, reply: Reply): Reply {
  const bodyless = method === "HEAD" || reply.status === 204 || reply.status === 205 || reply.status === 304;
  const headers = reply.headers.filter(([name]) => !isFraming(name.toLowerCase()));
  return { ...reply, headers, body: bodyless ? new Uint8Array(0) : reply.body };
}

/** Headers of one message on one connection, which are the server's own business. */
export const framing = ["content-length", "transfer-encoding", "trailer"] as const;

/** @param name in lower case */
export function isFraming(name: string): boolean {
  return name === "content-length" || name === "transfer-encoding" || name === "trailer";
}

/** The part of an answer that is stored. An answer that cannot be sent a second time as it is becomes a tombstone. */
export function storedForm(reply: Reply, stored: ReadonlySet<string>): Answer {
  const kept = reply.headers.filter(([name]) => stored.has(name.toLowerCase()));
  const sendable = kept.filter(isSendable);
  const storable =
    sendable.length === kept.length && reply.status >= 200 && reply.status <= 999 && !reply.bodyMissing;
  return {
    status: reply.status,
    headers: sendable,
    body: storable ? reply.body : new Uint8Array(0),
    omitted: storable ? null : "not-storable",
  };
}

/** Whether a header can be written as it is: a token, and latin-1 text that cannot break out of its line. */
export function isSendable([name, value]: HeaderEntry): boolean {
  if (!isToken(name)) return false;
  for (let index = 0; index < value.length; index++) {
    const code = value.charCodeAt(index);
    if (code > 0xff || code === 0x7f || (code < 0x20 && code !== 0x09)) return false;
  }
  return true;
}

/** Whether a text can be a header's name (RFC 9110, `token`). */
export function isToken(name: string): boolean {
  if (name.length === 0) return false;
  for (let index = 0; index < name.length; index++) {
    if (!isTokenCharacter(name.charCodeAt(index))) return false;
  }
  return true;
}

/** The headers of an answer whose bytes are gone. */
export function tombstoneHeaders(headers: Answer["headers"]): readonly HeaderEntry[] {
  return headers.filter(([name]) => !describingBytes.has(name.toLowerCase()));
}
