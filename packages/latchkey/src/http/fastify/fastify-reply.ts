/** What has been done to a Fastify reply, as a whole; and an answer sent through one. */
import type { ServerResponse } from "node:http";
import { type OwnProperties, readOwn, restoreOwn } from "../koa/own-properties.ts";
import { setFields } from "../node-response/head.ts";
import type { Reply } from "../protocol/capture.ts";
import type { FastifyAnswer, FastifyHeaders } from "./fastify-types.ts";

export interface ReplyState {
  readonly headers: FastifyHeaders;
  /** Fastify keeps on the reply, under symbols, what was set on it and how far its error handlers have got. */
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
export function ownReply(reply: FastifyAnswer, raw: ServerResponse): FastifyAnswer {
  const { request, log } = reply;
  const own: FastifyAnswer = Reflect.construct(reply.constructor, [raw, request, log]);
  const [from, to] = [reply, own] as unknown as readonly [Properties, Properties];
  for (const name of Reflect.ownKeys(reply)) {
    if (name === "raw" || to[name] === from[name]) continue;
    // Headers, trailers and cookies: what a run sets there is its own, also where other code answers meanwhile.
    const value = typeof name === "symbol" ? copyOf(from[name]) : from[name];
    if (Object.hasOwn(to, name)) to[name] = value;
    // What hides an accessor that cannot be set stays behind.
    else Reflect.set(to, name, value);
  }
  return own;
}

/** Gives a reply what a run has made of it, for the hooks that look at it when the answer has been sent. */
export function adoptReply(reply: FastifyAnswer, own: FastifyAnswer): void {
  const [to, from] = [reply, own] as unknown as readonly [Properties, Properties];
  for (const name of Object.getOwnPropertySymbols(reply)) if (isCopied(to[name])) to[name] = from[name];
}

function copyOf(value: unknown): unknown {
  if (value instanceof Map) return new Map(value);
  if (!isCopied(value)) return value;
  const copy: Properties = { ...value };
  // Fastify adds to the lines of cookies in place.
  for (const name of Object.keys(copy)) if (Array.isArray(copy[name])) copy[name] = [...copy[name]];
  return copy;
}

function isCopied(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  return value instanceof Map || Object.getPrototypeOf(value) === Object.prototype;
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
