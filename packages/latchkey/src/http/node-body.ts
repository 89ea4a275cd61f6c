/** Bodies of requests that Node received, whoever has read them. */
import type { IncomingMessage } from "node:http";
import type { BodyReading } from "./incoming.ts";
import { announcesBody, badRequest, readBytes, requireHttp1 } from "./node-messages.ts";
import { parseJsonBody } from "./request-body.ts";

/** Where a framework keeps a request's body: Node's own message, or an object of the framework's beside it. */
export interface BodyHolder {
  body?: unknown;
  /** The bytes, or the text they are in UTF-8, as some parsers and platforms leave them. */
  rawBody?: unknown;
}

const rawBodyKey = Symbol.for("latchkey.rawBody");

/** Keeps the bytes of a body beside the message that they came with. */
export function keepBytes(message: IncomingMessage, bytes: Uint8Array): void {
  // By assignment: as fast as any other property, which a definition is not.
  Reflect.set(message, rawBodyKey, bytes);
}

/**
 * Reads a request's body where nobody has, and leaves it where the framework's handlers look for it: JSON as its value,
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
  const kept = keptBytes(message, holder);
  if (kept !== null)
    return kept.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes: kept };
  if (!announcesBody(message)) return { kind: "bytes", bytes: new Uint8Array(0) };
  if (message.readableDidRead) {
    return holder.body === undefined
      ? { kind: "consumed", remedy }
      : { kind: "parsed", value: holder.body, remedy };
  }
  return readAndGive(message, holder, limitBytes);
}

async function readAndGive(
  message: IncomingMessage,
  holder: BodyHolder,
  limitBytes: number,
): Promise<BodyReading> {
  const reading = await readBytes(message, limitBytes);
  if (reading.kind === "bytes") giveBody(message, holder, reading.bytes);
  return reading;
}

/** The bytes kept by a parser's hook, or by the platform: some cloud functions read the body first. */
function keptBytes(message: IncomingMessage, holder: BodyHolder): Uint8Array | null {
  const kept: unknown = Reflect.get(message, rawBodyKey) ?? holder.rawBody;
  if (kept instanceof Uint8Array) return kept;
  return typeof kept === "string" ? Buffer.from(kept, "utf8") : null;
}

/** Nobody else can read these bytes any more: JSON as its value, anything else (compressed JSON too) as the bytes. */
function giveBody(message: IncomingMessage, holder: BodyHolder, bytes: Uint8Array): void {
  // What body parsers of Express 4 look at before they read.
  Object.defineProperty(message, "_body", { value: true, configurable: true, writable: true });
  if (holder.body !== undefined) return;
  try {
    const encoded = message.headers["content-encoding"] !== undefined;
    const value = parseJsonBody(bytes, encoded ? null : (message.headers["content-type"] ?? null));
    holder.body = value === undefined ? bytes : value; // `null` is JSON
  } catch (cause) {
    throw badRequest("The request's body is not valid JSON", "entity.parse.failed", cause);
  }
}
