/**
 * Answers from middleware, such as time-outs, while a handler works on a view of the response. The client gets such an
 * answer. The handler continues on a detached response, and its answer there is stored.
 */
import type { IncomingMessage } from "node:http";
import { interceptionKey, prototypeBeneath } from "./buffered-prototype.ts";
import { type Head, readHead, restoreHead } from "./head.ts";
import { methodNames } from "./method-table.ts";
import { ServerResponse } from "./node-http.ts";

/** An answer below this status may be the handler's own, from a callback that has lost its async context. */
export const errorStatusMin = 400;

export class MiddlewareAnswers {
  readonly #res: ServerResponse;
  readonly #before: Head;
  readonly #isHandlers: () => boolean;
  readonly #leave: () => void;
  /** The handler's head before middleware began to change it; null: middleware has not. */
  #handlers: Head | null = null;
  /** The status that the handler has set through its view. */
  #status: Partial<Pick<Head, "statusCode" | "statusMessage">> = {};

  /** @param leave stops buffering the response, and buffers a detached one instead */
  constructor(res: ServerResponse, before: Head, isHandlers: () => boolean, leave: () => void) {
    this.#res = res;
    this.#before = before;
    this.#isHandlers = isHandlers;
    this.#leave = leave;
  }

  /** Call this before a header of the response is changed. */
  changing(res: ServerResponse): void {
    if (res !== this.#res) this.#handlers = null;
    else if (!this.#isHandlers()) this.#handlers ??= readHead(res);
  }

  /** Records a status that the handler sets. */
  noteStatus(name: PropertyKey, value: unknown): void {
    if (name === "statusCode") this.#status = { ...this.#status, statusCode: Number(value) };
    if (name === "statusMessage") this.#status = { ...this.#status, statusMessage: String(value) };
  }

  /** Discards the state of the previous run. */
  startRun(): void {
    this.#handlers = null;
    this.#status = {};
  }

  /** Whether the answer that begins now is from other code than the handler; if so, stops buffering the response. */
  takes(res: ServerResponse, status: number): boolean {
    if (res !== this.#res || !(status >= errorStatusMin) || this.#isHandlers()) return false;
    this.#leave();
    return true;
  }

  /** Returns the handler's head and removes it from the response, which is no longer buffered. */
  takeHead(): Head {
    const res = this.#res;
    const { statusCode, statusMessage, sendDate } = this.#before;
    const { headers } = this.#handlers ?? readHead(res);
    const prepared = new Set(this.#before.headers.map(([name]) => name.toLowerCase()));
    for (const [name, value] of headers)
      if (!prepared.has(name.toLowerCase()) && res.getHeader(name) === value) res.removeHeader(name);
    return { statusCode, statusMessage, sendDate, headers, ...this.#status };
  }
}

/** Not copied: buffering covers these, and methods that middleware has wrapped lead to the other response. */
const notCopied: ReadonlySet<PropertyKey> = new Set<PropertyKey>([
  ...methodNames.usedFirst,
  ...methodNames.others,
  "statusCode",
  "statusMessage",
  interceptionKey,
]);

/** A copy of the response, with everything that middleware has added, but without a socket. */
export function detachedFrom<Res extends ServerResponse>(res: Res, req: IncomingMessage, head: Head): Res {
  const copy = new ServerResponse(req) as Res;
  Object.setPrototypeOf(copy, prototypeBeneath(res));
  for (const [name, own] of Object.entries(Object.getOwnPropertyDescriptors(res)))
    if (!notCopied.has(name) && !Object.hasOwn(copy, name)) Object.defineProperty(copy, name, own);
  for (const name of Object.getOwnPropertySymbols(res))
    if (!notCopied.has(name) && !Object.hasOwn(copy, name)) Reflect.set(copy, name, Reflect.get(res, name));
  restoreHead(copy, head);
  return copy;
}

const redirectedMethods = [
  "appendHeader",
  "end",
  "flushHeaders",
  "getHeader",
  "getHeaderNames",
  "getHeaders",
  "hasHeader",
  "on",
  "once",
  "removeHeader",
  "setHeader",
  "setHeaders",
  "write",
  "writeHead",
] as const;
const redirectedProperties = ["headersSent", "statusCode", "statusMessage", "writableEnded"] as const;

/**
 * Redirects the handler's calls to the detached response. Helpers that middleware has put on a response lead to the response
 * itself: `res.fail = () => res.status(400).json(…)`.
 *
 * @returns a function that ends the redirection
 */
export function redirect(
  res: ServerResponse,
  detached: ServerResponse,
  isHandlers: () => boolean,
): () => void {
  const undo: (() => void)[] = [];
  const override = (name: string, descriptor: PropertyDescriptor) => {
    const own = Object.getOwnPropertyDescriptor(res, name);
    if (own?.configurable === false) return;
    Object.defineProperty(res, name, { ...descriptor, configurable: true });
    undo.push(() => {
      const there = Object.getOwnPropertyDescriptor(res, name);
      // Other code may have replaced it.
      if (there?.value !== descriptor.value || there?.get !== descriptor.get) return;
      if (own === undefined) Reflect.deleteProperty(res, name);
      else Object.defineProperty(res, name, own);
    });
  };
  for (const name of redirectedMethods) {
    const original: unknown = Reflect.get(res, name);
    if (typeof original !== "function") continue;
    const value = function (this: ServerResponse, ...args: unknown[]): unknown {
      if (!isHandlers()) return Reflect.apply(original, this, args);
      return Reflect.apply(Reflect.get(detached, name), detached, args);
    };
    override(name, { value, writable: true });
  }
  for (const name of redirectedProperties)
    override(name, redirectedProperty(res, detached, name, isHandlers));
  return () => {
    for (const each of undo) each();
  };
}

function redirectedProperty(
  res: ServerResponse,
  detached: ServerResponse,
  name: string,
  isHandlers: () => boolean,
): PropertyDescriptor {
  let own: unknown = Reflect.get(res, name);
  const isOwn = name.startsWith("status");
  return {
    get: () => {
      if (isHandlers()) return Reflect.get(detached, name);
      return isOwn ? own : Reflect.get(Object.getPrototypeOf(res), name, res);
    },
    set: (value: unknown) => {
      if (isHandlers()) Reflect.set(detached, name, value);
      else own = value;
    },
  };
}
