/** Reading Node's requests and writing Node's responses, for every adapter on `node:http`. */
import { type IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Readable } from "node:stream";
import { textOf } from "../fetch/fetch-messages.ts";
import { framing, isFraming, type Reply } from "../protocol/capture.ts";
import type { BodyReading, HeaderLines } from "../protocol/incoming.ts";
import { hasLines, isStandIn, setFields } from "./head.ts";

/**
 * The field lines of a header, from the raw headers: `req.headers` joins repeated lines, and two lines `"a` and `b"`
 * become one valid String there. Requests that something else than `node:http` has made may have no raw headers.
 */
export function headerLines(
  req: Partial<Pick<IncomingMessage, "rawHeaders">> & Pick<IncomingMessage, "headers">,
  name: string,
): HeaderLines {
  const wanted = name.toLowerCase();
  const { rawHeaders = [] } = req;
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
 * @param afterwards `unread`: the bytes are given back to the stream, for the next reader: a proxy, a multipart parser
 * @throws {Error} with `status` 400 when the request ends early.
 */
export function readBytes(
  req: IncomingMessage,
  limitBytes: number,
  afterwards: "unread" | "ended" = "ended",
): Promise<BodyReading> {
  if (Number(req.headers["content-length"] ?? 0) > limitBytes) {
    req.resume();
    return Promise.resolve({ kind: "too-large" });
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const stop = () => {
      req.off("readable", onReadable).off("end", onEnd).off("error", onFailed).off("close", onFailed);
    };
    const onReadable = () => {
      for (let chunk: Buffer | null = req.read(); chunk !== null; chunk = req.read()) {
        size += chunk.byteLength;
        if (size > limitBytes) {
          stop();
          req.resume();
          resolve({ kind: "too-large" });
          return;
        }
        chunks.push(chunk);
      }
      // Before `end` is emitted, which cannot be taken back.
      if (afterwards === "unread" && size > 0 && hasArrived(req)) onEnd();
    };
    const onEnd = () => {
      stop();
      const [only] = chunks;
      const bytes = only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks);
      if (!req.readableEnded && size > 0) giveBack(req, bytes);
      resolve({ kind: "bytes", bytes });
    };
    const onFailed = (cause?: Error) => {
      stop();
      reject(badRequest("The request ended before its body was complete", "request.aborted", cause));
    };
    req.on("readable", onReadable).on("end", onEnd).on("error", onFailed).on("close", onFailed);
  });
}

/** Whether nothing more will come into a stream. Node tells it only when the last byte has been read. */
function hasArrived(req: IncomingMessage): boolean {
  const state = stateOf(req);
  return state !== null && Reflect.get(state, "ended") === true;
}

function stateOf(req: Readable): object | null {
  const state: unknown = Reflect.get(req, "_readableState");
  return typeof state === "object" ? state : null;
}

const givenBackKey = Symbol("latchkey.givenBack");

function giveBack(req: IncomingMessage, bytes: Buffer): void {
  unread(req, bytes);
  Reflect.set(req, givenBackKey, bytes.byteLength);
  // Then Node itself throws away, after the answer, what no handler has read.
  Reflect.set(req, "_consumed", false);
}

/** Puts bytes back, before `end` was emitted. */
function unread(req: Readable, bytes: Buffer): void {
  req.unshift(bytes);
  // `fetch` takes no stream for a body that was read from: `readableDidRead`.
  const state = stateOf(req);
  if (state !== null) Reflect.set(state, "dataEmitted", false);
}

/** What has arrived of a body that was not read; it stays unread. Null: nothing. */
export function peekBytes(req: Readable): Buffer | null {
  const chunk: Buffer | null = req.read();
  if (chunk !== null) unread(req, chunk);
  return chunk;
}

/** Whether a reader has begun to read what was put back. */
export function isReadAgain(req: IncomingMessage | undefined): boolean {
  const given: unknown = req === undefined ? null : Reflect.get(req, givenBackKey);
  if (req === undefined || typeof given !== "number") return false;
  return req.readableLength < given || req.readableFlowing === true;
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
  // Text in a row with the head leaves in one piece, bytes in two. Middleware that wraps `end` expects bytes, and what
  // stands for a socket under Lambda's wrappers takes all text for UTF-8.
  if (isStandIn(res)) return void (res as ServerResponse).end(textOf(bytes) ?? bytes);
  const wrapped = res.end !== ServerResponse.prototype.end;
  if (wrapped || byteLength > oneWriteMaxBytes || !hasRealSocket(res)) res.end(bytes);
  else res.end(bytes.toString("latin1"), "latin1");
}

/** A pipelined response has no socket until its turn comes. */
function hasRealSocket({ socket }: ServerResponse): boolean {
  return socket === null || socket instanceof Socket;
}

function mayHaveBody(res: ServerResponse): boolean {
  return res.req?.method !== "HEAD" && res.statusCode !== 204 && res.statusCode !== 304;
}
