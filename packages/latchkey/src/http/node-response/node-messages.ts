/** Reads Node's requests and writes Node's responses, for every adapter on `node:http`. */
import type { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import type { Readable } from "node:stream";
import { framing, isFraming, type Reply } from "../protocol/capture.ts";
import type { BodyReading, HeaderLines } from "../protocol/incoming.ts";
import { bodyText } from "../shared/body-text.ts";
import { hasLines, isSubstitute, setFields } from "./head.ts";
import { ServerResponse } from "./node-http.ts";

/**
 * The field lines of a header, from the raw headers, because `req.headers` joins repeated lines: `"a` and `b"` would become
 * one valid String. Requests that were not created by `node:http` may have no raw headers.
 */
export function headerLines(
  req: Partial<Pick<IncomingMessage, "rawHeaders">> & Pick<IncomingMessage, "headers">,
  name: string,
): HeaderLines {
  const wanted = inLowerCase(name);
  const { rawHeaders = [] } = req;
  let lines: string[] | null = null;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const found = rawHeaders[index] ?? "";
    // Length first, because this loop visits every header for every name.
    if (found.length === wanted.length && found.toLowerCase() === wanted) {
      lines ??= [];
      lines.push(rawHeaders[index + 1] ?? "");
    }
  }
  if (lines !== null) return { lines, joined: false };
  const joined = req.headers[wanted];
  if (joined === undefined) return noLines;
  return { lines: typeof joined === "string" ? [joined] : joined, joined: true };
}

const noLines: HeaderLines = { lines: [], joined: false };

/** `toLowerCase` takes longer than the search. The names are those of options and of this library, so they are few. */
function inLowerCase(name: string): string {
  const known = lowerCased.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  lowerCased.set(name, lower);
  return lower;
}

const lowerCased = new Map<string, string>();

/**
 * Refuses messages of `node:http2`: their heads need not announce a body, so a fingerprint could miss it; a truncated body ends
 * like a complete one; and their responses cannot be buffered.
 *
 * @throws {TypeError} for HTTP/2.
 */
export function requireHttp1({ httpVersionMajor }: IncomingMessage): void {
  if (httpVersionMajor >= 2) throw new TypeError(http2Refused);
}

const http2Refused =
  "Messages of `node:http2` cannot be protected: use a proxy that speaks HTTP/2 to clients and HTTP/1.1 to this server";

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
 * Reads a request's body. One over the limit is read to its end and discarded, so that the answer arrives: clients do not
 * listen while they send.
 *
 * @param afterwards `unread`: puts the bytes back into the stream for the next reader, such as a proxy or a multipart parser
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
      // Must stop before `end` is emitted, which cannot be undone.
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

/** Whether all bytes have arrived. Node's public properties report it only after the last byte was read. */
function hasArrived(req: IncomingMessage): boolean {
  return internals(req)._readableState?.ended === true;
}

const givenBackKey = Symbol("latchkey.givenBack");

/** What Node's declarations leave out. Plain properties, because `Reflect` takes eight times as long. */
interface Internals {
  readonly _readableState?: { readonly ended?: boolean; dataEmitted?: boolean } | null;
  _consuming?: boolean;
  [givenBackKey]?: number;
}

function internals(req: Readable): Internals {
  return req as Readable & Internals;
}

function giveBack(req: IncomingMessage, bytes: Buffer): void {
  unread(req, bytes);
  internals(req)[givenBackKey] = bytes.byteLength;
  // With this, Node discards what is still unread after the answer, and the message ends.
  internals(req)._consuming = false;
}

/** Puts bytes back into a stream that has not emitted `end`. */
function unread(req: Readable, bytes: Buffer): void {
  req.unshift(bytes);
  // Resets `readableDidRead`: `fetch` refuses a body that was read from.
  const { _readableState: state } = internals(req);
  if (state) state.dataEmitted = false;
}

/** The bytes of an unread body that have arrived; they stay unread. Null: none. */
export function peekBytes(req: Readable): Buffer | null {
  const chunk: Buffer | null = req.read();
  if (chunk !== null) unread(req, chunk);
  return chunk;
}

/** Whether a reader has begun to read the bytes that were put back. */
export function isReadAgain(req: IncomingMessage | undefined): boolean {
  const given = req === undefined ? undefined : internals(req)[givenBackKey];
  if (req === undefined || given === undefined) return false;
  return req.readableLength < given || req.readableFlowing === true;
}

/**
 * Discards bytes that were put back if no code has begun to read them. Once a handler has ended, Node would discard them only
 * after the answer, and `@hono/node-server` sets a timer for every answer that comes before the end of its request.
 */
export function discardUnread(req: IncomingMessage | undefined): void {
  const given = req === undefined ? undefined : internals(req)[givenBackKey];
  if (given !== undefined && req?.readableLength === given && req.readableFlowing === null) req.read();
}

/** An error that Node's frameworks answer with 400. */
export function badRequest(message: string, type: string, cause: unknown): Error {
  return Object.assign(new Error(message, { cause }), { status: 400, statusCode: 400, expose: true, type });
}

/** Sends a handler's own answer with exactly these headers. */
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

/** Sends an answer of Latchkey's. The response's headers stay, unless the reply has the same names. */
export function sendLatchkeyReply(res: ServerResponse, reply: Reply): void {
  res.statusCode = reply.status;
  setFields(reply.headers, (name, value) => res.setHeader(name, value));
  endReply(res, reply);
}

function endReply(res: ServerResponse, reply: Reply): void {
  // Node no longer adds it once a Content-Length was removed, as a handler's may have been.
  if (mayHaveBody(res)) res.setHeader("Content-Length", reply.body.byteLength);
  endWith(res, reply.body);
}

/** Longer bodies are not copied to text. */
const oneWriteMaxBytes = 16_384;

function endWith(res: ServerResponse, { buffer, byteOffset, byteLength }: Uint8Array): void {
  if (byteLength === 0) return void res.end();
  const bytes = Buffer.from(buffer, byteOffset, byteLength);
  // Node sends text in one write with the head, but bytes in a second one. Middleware that wraps `end` expects bytes, and
  // stand-ins for sockets, such as in Lambda's wrappers, take all text for UTF-8.
  if (isSubstitute(res)) return void (res as ServerResponse).end(bodyText(bytes) ?? bytes);
  const wrapped = res.end !== ServerResponse.prototype.end;
  if (wrapped || byteLength > oneWriteMaxBytes || !hasRealSocket(res)) res.end(bytes);
  else res.end(bytes.toString("latin1"), "latin1");
}

/** A pipelined response has no socket until its turn, but will get a real one. */
function hasRealSocket({ socket }: ServerResponse): boolean {
  return socket === null || socket instanceof Socket;
}

function mayHaveBody(res: ServerResponse): boolean {
  return res.req?.method !== "HEAD" && res.statusCode !== 204 && res.statusCode !== 304;
}
