/** Finds Node's message under the Fetch requests of `@hono/node-server`. */
import type { IncomingMessage } from "node:http";
import type { BodyReading } from "../protocol/incoming.ts";
import { announcesBody } from "./node-messages.ts";

/**
 * Node's message under a request that no code has read yet; null otherwise. That package keeps the message in a property of the
 * request, and creates a real `Request` in another one when needed.
 */
export function untouchedMessage(request: Request): IncomingMessage | null {
  let message: IncomingMessage | null = null;
  for (const symbol of Object.getOwnPropertySymbols(request)) {
    const value = (request as unknown as Readonly<Record<symbol, unknown>>)[symbol];
    if (isMessage(value)) message = value;
    else if (value instanceof Request) return null;
  }
  if (message === null || "rawBody" in message || message.httpVersionMajor >= 2) return null;
  return !message.readableDidRead && announcesBody(message) ? message : null;
}

/** Checks properties, because some platforms do not have the class. */
function isMessage(value: unknown): value is IncomingMessage {
  if (typeof value !== "object" || value === null) return false;
  const { rawHeaders, readableDidRead, on } = value as Partial<IncomingMessage>;
  return Array.isArray(rawHeaders) && typeof readableDidRead === "boolean" && typeof on === "function";
}

/**
 * Leaves a body that was read from the message unread in the request. The bytes also stay in the message, for handlers that pass
 * it to Node code (a proxy, a multipart parser); that package looks in its `rawBody` first, and so needs no web stream.
 */
export function leaveUnder(message: IncomingMessage, reading: BodyReading): BodyReading {
  // Assigned, because V8 keeps an assigned property fast and a defined one slow.
  if (reading.kind === "bytes") (message as { rawBody?: Uint8Array }).rawBody = reading.bytes;
  return reading;
}
