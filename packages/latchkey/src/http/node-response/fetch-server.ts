/** Requests of the Fetch form under which `@hono/node-server` has Node's own message. */
import type { IncomingMessage } from "node:http";
import type { BodyReading } from "../protocol/incoming.ts";
import { announcesBody, readBytes } from "./node-messages.ts";

/**
 * Node's own message under a request that no code has read yet; null elsewhere. That package keeps it in a property of the
 * request, beside the real `Request` once one was needed.
 */
export function untouchedMessage(request: Request): IncomingMessage | null {
  let message: IncomingMessage | null = null;
  for (const symbol of Object.getOwnPropertySymbols(request)) {
    const value: unknown = Reflect.get(request, symbol);
    if (isMessage(value)) message = value;
    else if (value instanceof Request) return null;
  }
  if (message === null || "rawBody" in message || message.httpVersionMajor >= 2) return null;
  return !message.readableDidRead && announcesBody(message) ? message : null;
}

/** Some platforms have no class for it. */
function isMessage(value: unknown): value is IncomingMessage {
  return (
    typeof value === "object" &&
    value !== null &&
    Array.isArray(Reflect.get(value, "rawHeaders")) &&
    typeof Reflect.get(value, "readableDidRead") === "boolean" &&
    typeof Reflect.get(value, "on") === "function"
  );
}

/**
 * Reads a body past the request. The bytes stay in the message, for handlers that give it to code of Node's (a proxy, a
 * multipart parser), and in its `rawBody`, where that package looks first: the request stays unread, and no web stream is made
 * for it.
 */
export async function readUnder(message: IncomingMessage, limitBytes: number): Promise<BodyReading> {
  const reading = await readBytes(message, limitBytes, "unread");
  // By assignment: V8 keeps an assigned property fast, and a defined one slow.
  if (reading.kind === "bytes") Reflect.set(message, "rawBody", reading.bytes);
  return reading;
}
