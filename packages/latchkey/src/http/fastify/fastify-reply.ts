/** Saves, copies and restores the state of a Fastify reply, and sends an answer through one. `fastify-exchange.ts` captures answers. */
import type { ServerResponse } from "node:http";
import { setFields } from "../node-response/head.ts";
import type { Reply } from "../protocol/capture.ts";
import { type OwnProperties, readOwn, restoreOwn } from "../shared/own-properties.ts";
import type { FastifyAnswer, FastifyHeaders } from "./fastify-types.ts";

export interface ReplyState {
  readonly headers: FastifyHeaders;
  /** Fastify keeps settings and the state of its error handlers on the reply, under symbols. */
  readonly own: OwnProperties;
}

export function readReply(reply: FastifyAnswer): ReplyState {
  return { headers: { ...reply.getHeaders() }, own: readOwn(reply) };
}

/** For access by key, which is several times as fast as `Reflect`. */
type Properties = Record<PropertyKey, unknown>;

/**
 * Copies a reply with its current state, through the same constructor. `Object.create` would be worse: an object that becomes a
 * prototype gets a new shape, for which no code is optimised, and which keeps the request in memory until the old generation
 * is collected.
 */
export function ownReply(reply: FastifyAnswer, raw: ServerResponse): FastifyAnswer {
  const { request, log } = reply;
  const own: FastifyAnswer = Reflect.construct(reply.constructor, [raw, request, log]);
  const [from, to] = [reply, own] as unknown as readonly [Properties, Properties];
  for (const name of Reflect.ownKeys(reply)) {
    if (name === "raw" || to[name] === from[name]) continue;
    // Headers, trailers and cookies are copied, because other code may answer on the original during the run.
    const value = typeof name === "symbol" ? copyOf(from[name]) : from[name];
    if (Object.hasOwn(to, name)) to[name] = value;
    // Ignores a property that hides an accessor without a setter.
    else Reflect.set(to, name, value);
  }
  return own;
}

/** Copies the state of a run's reply to the request's reply, for hooks that read it after the answer was sent. */
export function adoptReply(reply: FastifyAnswer, own: FastifyAnswer): void {
  const [to, from] = [reply, own] as unknown as readonly [Properties, Properties];
  for (const name of Object.getOwnPropertySymbols(reply)) if (isCopied(to[name])) to[name] = from[name];
}

function copyOf(value: unknown): unknown {
  if (value instanceof Map) return new Map(value);
  if (!isCopied(value)) return value;
  const copy: Properties = { ...value };
  // Fastify appends cookie lines in place.
  for (const name of Object.keys(copy)) if (Array.isArray(copy[name])) copy[name] = [...copy[name]];
  return copy;
}

function isCopied(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  return value instanceof Map || Object.getPrototypeOf(value) === Object.prototype;
}

/** Restores an earlier state of a reply, except for status and reason, which belong to the raw response. */
export function restoreReply(reply: FastifyAnswer, { headers, own }: ReplyState): void {
  restoreOwn(reply, own);
  restoreHeaders(reply, headers);
}

/** Restores a reply's headers. */
export function restoreHeaders(reply: FastifyAnswer, before: FastifyHeaders): void {
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
  for (const [name, value] of Object.entries(before)) if (value !== undefined) reply.header(name, value);
}

/** Sends an answer through Fastify's hooks. Headers that hooks have prepared stay, unless the answer has the same names. */
export function sendReply(reply: FastifyAnswer, { status, headers, body }: Reply): void {
  // Not through `reply.code`, which refuses a status above 599.
  reply.raw.statusCode = status;
  setFields(headers, (name, value) => reply.header(name, value));
  const { buffer, byteOffset, byteLength } = body;
  // Fastify would set a content type for empty bytes.
  if (byteLength === 0) reply.send();
  else reply.send(Buffer.from(buffer, byteOffset, byteLength));
}
