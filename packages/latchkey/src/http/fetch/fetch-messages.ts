/** Reads Fetch requests and makes Fetch responses, for every adapter whose handlers return a `Response`. */
import { LatchkeyError } from "../../errors.ts";
import type { HeaderEntry, Reply } from "../protocol/capture.ts";
import type { BodyReading, HeaderLines } from "../protocol/incoming.ts";
import { bodyText } from "../shared/body-text.ts";

/** Path and query of a request. */
export function targetOf(request: Pick<Request, "url">): string {
  const { url } = request;
  const from = url.indexOf("/", url.indexOf("://") + 3);
  const plain = from < 0 ? "" : url.slice(from);
  if (plainTarget.test(plain)) return plain;
  const { pathname, search } = new URL(url);
  return pathname + search;
}

/** Targets that URL parsing does not change: no dots (some dot segments vanish), no fragment, no empty query. */
const plainTarget = /^\/[\w~/-]*(?:\?[\w~/.=&%+-]+)?$/u;

/** The value of a header. `Headers` joins repeated lines. */
export function joinedHeader(request: Request, name: string): HeaderLines {
  const value = request.headers.get(name);
  return { lines: value === null ? [] : [value], joined: true };
}

/** Reads a request's body. One over the limit is read on and discarded, because clients do not listen while they send. */
export async function readRequestBytes(request: Request, limitBytes: number): Promise<BodyReading> {
  if (request.bodyUsed)
    return {
      kind: "consumed",
      remedy: "Pass the request to the protected handler unread (use `request.clone()` for other readers).",
    };
  const announced = request.headers.get("content-length");
  if (
    announced !== null &&
    Number(announced) <= limitBytes &&
    request.headers.get("transfer-encoding") === null
  ) {
    // In one piece, at a fifth of a stream's cost: the transport delivers no more than was announced.
    const bytes = new Uint8Array(await request.arrayBuffer());
    return bytes.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes };
  }
  if (request.body === null) return { kind: "bytes", bytes: new Uint8Array(0) };
  const reader = request.body.getReader();
  const bytes = Number(announced ?? 0) > limitBytes ? null : await readUpTo(reader, limitBytes);
  if (bytes !== null) return { kind: "bytes", bytes };
  void drain(reader);
  return { kind: "too-large" };
}

/** The request with its body unread. Can be called any number of times. */
export function unread(request: Request, bytes: Uint8Array | null): Request {
  const bodyless = bytes === null || request.method === "GET" || request.method === "HEAD";
  return bodyless ? request : withBody(request, bytes);
}

function withBody(request: Request, bytes: Uint8Array): Request {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) as Uint8Array<ArrayBuffer>;
  try {
    return new Request(request, { body });
  } catch {
    // A server may have its own class of requests, which the global constructor does not accept.
    const { url, method, headers, signal } = request;
    const kept = signal instanceof AbortSignal ? { signal } : {};
    return new Request(url, { method, headers: [...headers], body, ...kept });
  }
}

/**
 * Reads a handler's response to its end.
 *
 * @throws {LatchkeyError} `answer-missing` when it cannot be sent; `answer-too-large`.
 */
export async function captureResponse(response: Response | undefined, limitBytes: number): Promise<Reply> {
  if (!isAnswer(response)) throw new LatchkeyError("answer-missing");
  const { status, statusText, headers } = response;
  const reader = response.body?.getReader();
  const bytes = reader === undefined ? new Uint8Array(0) : await readUpTo(reader, limitBytes);
  if (bytes === null) {
    void reader?.cancel().catch(() => {});
    throw new LatchkeyError("answer-too-large");
  }
  return { status, headers: [...headers], body: bytes, ...(statusText === "" ? {} : { statusText }) };
}

export function isFinalStatus(status: unknown): boolean {
  return typeof status === "number" && status >= 200;
}

/** False for other values, for an error response (status 0), and for a response whose body was already read. */
function isAnswer(response: Response | undefined): response is Response {
  return isFinalStatus(response?.status) && !response?.bodyUsed;
}

/** A response to send; `prepared` are the framework's headers, added unless the reply has the same names. */
export function toResponse(reply: Reply, prepared: readonly HeaderEntry[] = []): Response {
  const { status, statusText } = reply;
  // A Response with empty text would get a content type, and plugins would digest and compress it.
  const bodyless = reply.body.byteLength === 0 || status === 204 || status === 205 || status === 304;
  const headers = plainHeaders(reply, prepared) ?? joinedHeaders(reply, prepared);
  const init = statusText === undefined ? { status, headers } : { status, headers, statusText };
  if (bodyless) return new Response(null, init);
  return new Response(
    (headers instanceof Headers ? null : bodyText(reply.body)) ?? Buffer.from(reply.body),
    init,
  );
}

/**
 * The headers as a record, which platforms read faster than `Headers`. Null if a name occurs twice, or if a body has no type,
 * because `@hono/node-server` adds a type only without a record.
 */
function plainHeaders(reply: Reply, prepared: readonly HeaderEntry[]): Record<string, string> | null {
  if (prepared.length > 0) return null;
  const headers: Record<string, string> = {};
  for (const [name, value] of reply.headers) headers[name.toLowerCase()] = value;
  const untyped = headers["content-type"] === undefined && reply.body.byteLength > 0;
  return !untyped && Object.keys(headers).length === reply.headers.length ? headers : null;
}

function joinedHeaders(reply: Reply, prepared: readonly HeaderEntry[]): Headers {
  const headers = new Headers();
  for (const [name, value] of reply.headers) headers.append(name, value);
  const own = new Set([...headers.keys()]);
  for (const [name, value] of prepared) if (!own.has(name.toLowerCase())) headers.append(name, value);
  return headers;
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** All bytes, or null as soon as they exceed the limit. */
async function readUpTo(reader: Reader, limitBytes: number): Promise<Uint8Array | null> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return Buffer.concat(chunks);
    size += value.byteLength;
    if (size > limitBytes) return null;
    // The producer may reuse the chunk's buffer for the next one.
    chunks.push(Buffer.from(value));
  }
}

async function drain(reader: Reader): Promise<void> {
  try {
    while (!(await reader.read()).done);
  } catch {
    // The client is gone.
  }
}
