/** What has been done to a Fastify reply, as a whole; and an answer sent through one. */
import type { Reply } from "./capture.ts";
import type { FastifyAnswer, FastifyHeaders } from "./fastify-types.ts";
import { type OwnProperties, readOwn, restoreOwn } from "./own-properties.ts";
import { setFields } from "./response-head.ts";

export interface ReplyState {
  readonly headers: FastifyHeaders;
  /** Fastify keeps on the reply, under symbols, what it has been told and how far its error handlers have got. */
  readonly own: OwnProperties;
}

export function readReply(reply: FastifyAnswer): ReplyState {
  return { headers: { ...reply.getHeaders() }, own: readOwn(reply) };
}

/** Read and assigned by key, which is several times as fast as by `Reflect`. */
type Properties = Record<PropertyKey, unknown>;

/**
 * A reply as Fastify makes one, with everything that was done to this one so far. Made by the same constructor: an object
 * that becomes the prototype of another gets a shape of its own, which nothing is compiled for and which keeps the request
 * in memory until the old generation is collected.
 */
export function ownReply(reply: FastifyAnswer): FastifyAnswer {
  const { raw, request, log } = reply;
  const own: FastifyAnswer = Reflect.construct(reply.constructor, [raw, request, log]);
  const [from, to] = [reply, own] as unknown as readonly [Properties, Properties];
  for (const name of Reflect.ownKeys(reply)) {
    if (to[name] === from[name]) continue;
    if (Object.hasOwn(to, name)) to[name] = from[name];
    // What hides an accessor that cannot be set stays behind.
    else Reflect.set(to, name, from[name]);
  }
  return own;
}

/** Brings a reply back to an earlier state. Status and reason are the raw response's. */
export function restoreReply(reply: FastifyAnswer, { headers, own }: ReplyState): void {
  restoreOwn(reply, own);
  restoreHeaders(reply, headers);
}

/** Takes back what was done to a reply's headers. */
export function restoreHeaders(reply: FastifyAnswer, before: FastifyHeaders): void {
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
  for (const [name, value] of Object.entries(before)) if (value !== undefined) reply.header(name, value);
}

/** Sends an answer through Fastify's hooks; headers that they have prepared stay, unless it has the same. */
export function sendReply(reply: FastifyAnswer, { status, headers, body }: Reply): void {
  // Not by `reply.code`, which knows no status above 599.
  reply.raw.statusCode = status;
  setFields(headers, (name, value) => reply.header(name, value));
  const { buffer, byteOffset, byteLength } = body;
  // Fastify would name a type for bytes that have none.
  if (byteLength === 0) reply.send();
  else reply.send(Buffer.from(buffer, byteOffset, byteLength));
}
