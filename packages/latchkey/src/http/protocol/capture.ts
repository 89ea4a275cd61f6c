/** The stored part of an answer: its status, its bytes, and the headers that belong to them. */

import { isTokenCharacter } from "../../fingerprint/characters.ts";
import type { Answer } from "../../operations/answer.ts";

export type HeaderEntry = readonly [name: string, value: string];

/** An HTTP answer to send. */
export interface Reply {
  readonly status: number;
  /** The reason phrase, if the handler chose one. It is never stored. */
  readonly statusText?: string;
  /** One entry per field line, in order. The server adds framing (`Content-Length`, `Transfer-Encoding`, trailers). */
  readonly headers: readonly HeaderEntry[];
  readonly body: Uint8Array;
  /** The body could not be produced, so the answer is stored without one. */
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

/** Headers of one connection, one moment or one caller: in a replay they would be wrong or unsafe. */
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

/** Headers that describe the bytes, and would be wrong for an answer without them. */
const describingBytes: ReadonlySet<string> = new Set([
  "content-digest",
  "content-encoding",
  "content-md5",
  "content-range",
  "digest",
]);

/**
 * The names of headers to store, in lower case: the usual ones and `added`.
 *
 * @throws {TypeError} for an invalid name, or a header that must never be replayed.
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

/** Removes framing headers, and the body if HTTP allows none. */
export function withoutFraming(method: string, reply: Reply): Reply {
  const bodyless = method === "HEAD" || reply.status === 204 || reply.status === 205 || reply.status === 304;
  const headers = reply.headers.filter(([name]) => !isFraming(name.toLowerCase()));
  return { ...reply, headers, body: bodyless ? new Uint8Array(0) : reply.body };
}

/** Headers of one message on one connection, which the server sets. */
export const framing = ["content-length", "transfer-encoding", "trailer"] as const;

/** @param name in lower case */
export function isFraming(name: string): boolean {
  return name === "content-length" || name === "transfer-encoding" || name === "trailer";
}

/** The part of an answer to store. An answer that cannot be repeated exactly becomes a tombstone. */
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

/** Whether a header can be sent: its name is a token, and its value is latin-1 text that cannot break out of its line. */
export function isSendable([name, value]: HeaderEntry): boolean {
  if (!isToken(name)) return false;
  for (let index = 0; index < value.length; index++) {
    const code = value.charCodeAt(index);
    if (code > 0xff || code === 0x7f || (code < 0x20 && code !== 0x09)) return false;
  }
  return true;
}

/** Whether a text is a valid header name (RFC 9110, `token`). */
export function isToken(name: string): boolean {
  if (name.length === 0) return false;
  for (let index = 0; index < name.length; index++) {
    if (!isTokenCharacter(name.charCodeAt(index))) return false;
  }
  return true;
}

/** The headers of an answer whose bytes are not stored. */
export function tombstoneHeaders(headers: Answer["headers"]): readonly HeaderEntry[] {
  return headers.filter(([name]) => !describingBytes.has(name.toLowerCase()));
}
