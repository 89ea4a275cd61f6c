/** What has been done to a Fastify reply, as a whole. */
import type { FastifyAnswer, FastifyHeaders } from "./fastify-types.ts";

export interface ReplyState {
  readonly headers: FastifyHeaders;
  /** Fastify keeps on the reply, under symbols, what it has been told and how far its error handlers have got. */
  readonly own: ReadonlyMap<PropertyKey, unknown>;
}

export function readReply(reply: FastifyAnswer): ReplyState {
  return {
    headers: { ...reply.getHeaders() },
    own: new Map(Reflect.ownKeys(reply).map((name) => [name, Reflect.get(reply, name)])),
  };
}

/** Brings a reply back to an earlier state. Status and reason are the raw response's. */
export function restoreReply(reply: FastifyAnswer, { headers, own }: ReplyState): void {
  for (const name of Reflect.ownKeys(reply)) if (!own.has(name)) Reflect.deleteProperty(reply, name);
  for (const [name, value] of own) Reflect.set(reply, name, value);
  restoreHeaders(reply, headers);
}

/** Takes back what was done to a reply's headers. */
export function restoreHeaders(reply: FastifyAnswer, before: FastifyHeaders): void {
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
  for (const [name, value] of Object.entries(before)) if (value !== undefined) reply.header(name, value);
}
