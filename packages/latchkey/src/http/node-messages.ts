/** Reading Node's requests and writing Node's responses, for every adapter on `node:http`. */
import { type IncomingMessage, ServerResponse } from "node:http";
import { framing, isFraming, type Reply } from "./capture.ts";
import type { BodyReading, HeaderLines } from "./incoming.ts";
import { hasLines, setFields } from "./response-head.ts";

/**
 * The field lines of a header, from the raw headers: `req.headers` joins repeated lines, and two lines `"a` and `b"`
 * become one valid String there. Requests that something else than `node:http` has made may have no raw headers.
 */
export function headerLines(req: Pick<IncomingMessage, "rawHeaders" | "headers">, name: string): HeaderLines {
  const wanted = name.toLowerCase();
  const { rawHeaders } = req;
  const lines: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const found = rawHeaders[index] ?? "";
    // The length first: this loop runs over every header for every name that is asked for.
    if (found.length === wanted.length && found.toLowerCase() === wanted)
      lines.push(rawHeaders[index + 1] ?? "");
  }
  const joined = req.headers[wanted];
  if (lines.length > 0 || joined === undefined) return { lines, joined: false };
  return { lines: typeof joined === "string" ? [joined] : joined, joined: true };
}

/**
 * Refuses messages of `node:http2`: their heads need not announce a body, so that a fingerprint would miss it; a body that
 * was cut off ends as a whole one does; and their responses cannot be held.
 *
 * @throws {TypeError} for HTTP/2.
 */
export function requireHttp1({ httpVersionMajor }: IncomingMessage): void {
  if (httpVersionMajor >= 2) throw new TypeError(http2Refused);
}

const http2Refused =
  "Messages of `node:http2` cannot be protected: let a proxy speak HTTP/2 to clients, and HTTP/1.1 to this server";

/**
 * Whether the request's head announces a body.
 *
 * @throws {TypeError} for HTTP/2.
 */
export function announcesBody(req: IncomingMessage): boolean {
  requireHttp1(req);
  return req.headers["transfer-encoding"] !== undefined || Number(req.headers["content-length"] ?? 0) > 0;
}

/**
 * Reads a request's body. One over the limit is read to its end without being kept, so that the answer can be
 * delivered: a client does not listen while it sends.
 *
 * @throws {Error} with `status` 400 when the request ends early.
 */
export function readBytes(req: IncomingMessage, limitBytes: number): Promise<BodyReading> {
  if (Number(req.headers["content-length"] ?? 0) > limitBytes) {
    req.resume();
    return Promise.resolve({ kind: "too-large" });
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const stop = () => {
      req.off("data", onData).off("end", onEnd).off("error", onFailed).off("close", onFailed);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.byteLength;
      if (size <= limitBytes) {
        chunks.push(chunk);
        return;
      }
      stop();
      req.resume();
      resolve({ kind: "too-large" });
    };
    const onEnd = () => {
      stop();
      const [only] = chunks;
      const bytes = only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks);
      resolve({ kind: "bytes", bytes });
    };
    const onFailed = (cause?: Error) => {
      stop();
      reject(badRequest("The request ended before its body was complete", "request.aborted", cause));
    };
    req.on("data", onData).on("end", onEnd).on("error", onFailed).on("close", onFailed);
  });
}

/** An error that Node's frameworks answer with 400. */
export function badRequest(message: string, type: string, cause: unknown): Error {
  return Object.assign(new Error(message, { cause }), { status: 400, statusCode: 400, expose: true, type });
}

/** Sends a handler's own answer: these headers and no others. */
export function sendHandlerReply(res: ServerResponse, reply: Reply): void {
  const { sendDate } = res;
  const there = hasLines(res, reply.headers, isFraming);
  for (const name of there ? framing : res.getHeaderNames()) if (res.hasHeader(name)) res.removeHeader(name);
  res.sendDate = sendDate;
  if (reply.statusText !== undefined) res.statusMessage = reply.statusText;
  res.statusCode = reply.status;
  if (!there) setFields(reply.headers, (name, value) => res.setHeader(name, value));
  endReply(res, reply);
}

/** Sends an answer of Latchkey's: headers that this response has already stay, unless the reply has the same. */
export function sendLatchkeyReply(res: ServerResponse, reply: Reply): void {
  res.statusCode = reply.status;
  setFields(reply.headers, (name, value) => res.setHeader(name, value));
  endReply(res, reply);
}

function endReply(res: ServerResponse, reply: Reply): void {
  // Node does not count by itself any more once a Content-Length has been removed, as a handler's may have been.
  if (mayHaveBody(res)) res.setHeader("Content-Length", reply.body.byteLength);
  endWith(res, reply.body);
}

/** Longer bodies are not copied. */
const oneWriteMaxBytes = 16_384;

function endWith(res: ServerResponse, { buffer, byteOffset, byteLength }: Uint8Array): void {
  if (byteLength === 0) return void res.end();
  const bytes = Buffer.from(buffer, byteOffset, byteLength);
  // Text in a row with the head leaves in one piece, bytes in two. Middleware that wraps `end` expects bytes.
  const wrapped = res.end !== ServerResponse.prototype.end;
  if (wrapped || byteLength > oneWriteMaxBytes) res.end(bytes);
  else res.end(bytes.toString("latin1"), "latin1");
}

function mayHaveBody(res: ServerResponse): boolean {
  return res.req.method !== "HEAD" && res.statusCode !== 204 && res.statusCode !== 304;
}
