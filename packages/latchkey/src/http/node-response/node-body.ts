/** Reads the bodies of Node's requests, also those that other code has read. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { exactJson } from "../../fingerprint/parsed-value.ts";
import type { BodyReading } from "../protocol/incoming.ts";
import { isPlaceholder, parsedReading, parseJsonBody } from "../protocol/request-body.ts";
import { isMultipart, uploadedForm } from "../shared/uploads.ts";
import { announcesBody, badRequest, readBytes, requireHttp1 } from "./node-messages.ts";

/** The object on which a framework keeps a request's body: Node's message, or the framework's own request. */
export interface BodyHolder {
  body?: unknown;
  /** The bytes, or their UTF-8 text, as some parsers and platforms keep them. */
  rawBody?: unknown;
}

const rawBodyKey = Symbol.for("latchkey.rawBody");

/** Keeps the bytes of a body on their message. */
export function keepBytes(message: IncomingMessage, bytes: Uint8Array): void {
  // Assigned, because V8 keeps an assigned property fast and a defined one slow.
  (message as { [rawBodyKey]?: Uint8Array })[rawBodyKey] = bytes;
}

/**
 * Reads a request's body, and puts it where the framework's handlers look for it: JSON as its value, anything else as its
 * bytes. If other code has read the body, uses what that code has kept.
 *
 * @param remedy what the service can change if a parser has kept no bytes
 * @throws {Error} with `status` 400 when the request ends early, or its JSON is invalid
 */
export function readBufferedBody(
  message: IncomingMessage,
  holder: BodyHolder,
  limitBytes: number,
  remedy: string,
): BodyReading | Promise<BodyReading> {
  // Checked first, because a parser may have kept half of an HTTP/2 body.
  requireHttp1(message);
  const kept =
    keptBytes(message, holder) ?? standInBytes(message, holder.body ?? Reflect.get(message, "body"));
  if (kept !== null)
    return kept.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes: kept };
  if (!announcesBody(message)) return { kind: "bytes", bytes: new Uint8Array(0) };
  if (message.readableDidRead) {
    if (isMultipart(message.headers["content-type"])) return readUpload(message, holder);
    return parsedReading(holder.body, message.headers["content-type"], remedy);
  }
  return readAndGive(message, holder, limitBytes);
}

/** Uses the fields and files of a multipart parser that has already read the body. */
async function readUpload(message: IncomingMessage, holder: BodyHolder): Promise<BodyReading> {
  const holders = holder === message ? [message] : [holder, message];
  const value = await uploadedForm(holder.body, holders);
  return value === null
    ? { kind: "consumed", remedy: notCovered }
    : { kind: "parsed", value, remedy: multipartRemedy };
}

const multipartRemedy =
  "A multipart parser (multer, FileInterceptor …) has read it and kept no bytes. Run it inside the protected handler, where " +
  'the request is unread (in Nest: `@UseInterceptors(protect(operation), FileInterceptor("file"))`); or opt in to ' +
  '`fingerprint: "parsed"`, which covers its fields and files.';

const notCovered =
  "A multipart parser has passed files to a storage that keeps neither their bytes nor a local path, or has kept the upload " +
  "in an unknown place or form, so different uploads could look the same. Run it inside the protected handler, where the " +
  "request is unread.";

async function readAndGive(
  message: IncomingMessage,
  holder: BodyHolder,
  limitBytes: number,
): Promise<BodyReading> {
  const reading = await readBytes(message, limitBytes, "unread");
  if (reading.kind === "bytes") giveBody(message, holder, reading.bytes);
  return reading;
}

/**
 * The body of a request that tests or a platform made from a plain object, with a value but no stream; null if the request
 * can be read.
 */
export function standInBytes(message: IncomingMessage, body: unknown): Uint8Array | null {
  if (canBeRead(message)) return null;
  if (body === undefined || body === null) return new Uint8Array(0);
  if (body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === "string" ? body : exactJson(body), "utf8");
}

/** A method `read` is not enough: a framework may have given a plain object the prototype of its own requests. */
function canBeRead(message: IncomingMessage): boolean {
  const read: unknown = Reflect.get(message, "read");
  return typeof read === "function" && ("_readableState" in message || read !== Readable.prototype.read);
}

/** The bytes that a parser's hook or the platform has kept: some cloud functions read the body first. */
function keptBytes(message: IncomingMessage, holder: BodyHolder): Uint8Array | null {
  const kept: unknown = Reflect.get(message, rawBodyKey) ?? holder.rawBody;
  if (kept instanceof Uint8Array) return kept;
  return typeof kept === "string" ? Buffer.from(kept, "utf8") : null;
}

/**
 * Puts the body on its holder: JSON as its value, anything else, such as compressed JSON, as bytes. The message itself can be
 * read once more.
 *
 * Replaces the placeholder of a parser that has not read the body, such as `{}` for another media type.
 */
function giveBody(message: IncomingMessage, holder: BodyHolder, bytes: Uint8Array): void {
  // Body parsers of Express 4 check this before they read.
  Object.defineProperty(message, "_body", { value: true, configurable: true, writable: true });
  if (holder.body !== undefined && (bytes.byteLength === 0 || !isPlaceholder(holder.body))) return;
  try {
    const encoded = message.headers["content-encoding"] !== undefined;
    const value = parseJsonBody(bytes, encoded ? null : (message.headers["content-type"] ?? null));
    holder.body = value === undefined ? bytes : value; // `null` is JSON
  } catch (cause) {
    throw badRequest("The request's body is not valid JSON", "entity.parse.failed", cause);
  }
}
