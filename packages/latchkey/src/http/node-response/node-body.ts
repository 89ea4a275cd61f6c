/** Bodies of requests that Node received, also those that other code has read. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { exactJson } from "../../fingerprint/parsed-value.ts";
import { isMultipart, uploadedForm } from "../express/uploads.ts";
import type { BodyReading } from "../protocol/incoming.ts";
import { isPlaceholder, parsedReading, parseJsonBody } from "../protocol/request-body.ts";
import { announcesBody, badRequest, readBytes, requireHttp1 } from "./node-messages.ts";

/** Where a framework keeps a request's body: Node's own message, or an object of the framework's beside it. */
export interface BodyHolder {
  body?: unknown;
  /** The bytes, or the text they are in UTF-8, as some parsers and platforms leave them. */
  rawBody?: unknown;
}

const rawBodyKey = Symbol.for("latchkey.rawBody");

/** Keeps the bytes of a body beside the message that they came with. */
export function keepBytes(message: IncomingMessage, bytes: Uint8Array): void {
  // By assignment: V8 keeps an assigned property fast, and a defined one slow.
  Reflect.set(message, rawBodyKey, bytes);
}

/**
 * Reads a request's body unless it was read already, and leaves it where the framework's handlers look for it: JSON as its value,
 * anything else as its bytes. Else finds what is kept of it.
 *
 * @param remedy what to do where a parser has kept no bytes
 * @throws {Error} with `status` 400 when the request ends early, or its JSON is none
 */
export function readHeldBody(
  message: IncomingMessage,
  holder: BodyHolder,
  limitBytes: number,
  remedy: string,
): BodyReading | Promise<BodyReading> {
  // Before what a parser has kept, which may be half of a body.
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

/** A multipart parser has been here, and left files where it leaves them. */
async function readUpload(message: IncomingMessage, holder: BodyHolder): Promise<BodyReading> {
  const holders = holder === message ? [message] : [holder, message];
  const value = await uploadedForm(holder.body, holders);
  return value === null
    ? { kind: "consumed", remedy: notCovered }
    : { kind: "parsed", value, remedy: multipartRemedy };
}

const multipartRemedy =
  "A multipart parser (multer, FileInterceptor …) has read it and keeps no bytes. Let it run inside the protected handler " +
  '(in Nest: `@UseInterceptors(protect(operation), FileInterceptor("file"))`), where it finds the request unread; or opt in ' +
  'to `fingerprint: "parsed"`, which covers its fields and files.';

const notCovered =
  "A multipart parser has handed files to a storage that keeps neither their bytes nor a local path, or has left what it read " +
  "elsewhere or in a form that is not known here, so that two uploads cannot be told apart. Let it run inside the protected " +
  "handler, where it finds the request unread.";

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
 * The body of a request that tests or a platform have made of a plain object, which has a value and nothing to read; null
 * for those that can be read.
 */
export function standInBytes(message: IncomingMessage, body: unknown): Uint8Array | null {
  if (canBeRead(message)) return null;
  if (body === undefined || body === null) return new Uint8Array(0);
  if (body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === "string" ? body : exactJson(body), "utf8");
}

/** A framework may have given a plain object the prototype of its own requests, whose `read` finds no stream there. */
function canBeRead(message: IncomingMessage): boolean {
  const read: unknown = Reflect.get(message, "read");
  return typeof read === "function" && ("_readableState" in message || read !== Readable.prototype.read);
}

/** The bytes kept by a parser's hook, or by the platform: some cloud functions read the body first. */
function keptBytes(message: IncomingMessage, holder: BodyHolder): Uint8Array | null {
  const kept: unknown = Reflect.get(message, rawBodyKey) ?? holder.rawBody;
  if (kept instanceof Uint8Array) return kept;
  return typeof kept === "string" ? Buffer.from(kept, "utf8") : null;
}

/**
 * JSON as its value, anything else (compressed JSON too) as the bytes. The message itself can be read once more.
 *
 * Takes the place of what parsers leave that have not read: `{}` for another media type than theirs.
 */
function giveBody(message: IncomingMessage, holder: BodyHolder, bytes: Uint8Array): void {
  // What body parsers of Express 4 look at before they read.
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
