/**
 * Answers that middleware gives while a handler works on a view of the response: those of time-outs above all. Such an
 * answer goes to the client. The handler goes on with a response of its own, and how that ends is stored.
 */
import { type IncomingMessage, ServerResponse } from "node:http";
import { overlayKey, prototypeBeneath } from "../node-response/buffered-prototype.ts";
import { type Head, readHead, restoreHead } from "../node-response/head.ts";
import { methodNames } from "../node-response/method-table.ts";

/** Below this, an answer past the view may be the handler's own, through a callback that has lost its async context. */
export const errorStatusMin = 400;

export class Bystander {
  readonly #res: ServerResponse;
  readonly #before: Head;
  readonly #isHandlers: () => boolean;
  readonly #leave: () => void;
  /** The handler's head, from where middleware has begun to change it; null: it has not. */
  #handlers: Head | null = null;
  /** What the handler has set through its view. */
  #status: Partial<Pick<Head, "statusCode" | "statusMessage">> = {};

  /** @param leave takes the hold from the response, and lays it on another one */
  constructor(res: ServerResponse, before: Head, isHandlers: () => boolean, leave: () => void) {
    this.#res = res;
    this.#before = before;
    this.#isHandlers = isHandlers;
    this.#leave = leave;
  }

  /** Called before a header of the response is changed. */
  changing(res: ServerResponse): void {
    if (res !== this.#res) this.#handlers = null;
    else if (!this.#isHandlers()) this.#handlers ??= readHead(res);
  }

  /** Notes what the handler sets. */
  noteStatus(name: PropertyKey, value: unknown): void {
    if (name === "statusCode") this.#status = { ...this.#status, statusCode: Number(value) };
    if (name === "statusMessage") this.#status = { ...this.#status, statusMessage: String(value) };
  }

  /** Forgets a run that another one is to follow. */
  startRun(): void {
    this.#handlers = null;
    this.#status = {};
  }

  /** Whether an answer that begins now is not the handler's; then the response is free for it. */
  takes(res: ServerResponse, status: number): boolean {
    if (res !== this.#res || !(status >= errorStatusMin) || this.#isHandlers()) return false;
    this.#leave();
    return true;
  }

  /** The handler's head; it is taken off the response, which is free by now. */
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

/** What is not copied: a hold lays its own there, and what middleware has wrapped leads to the other response. */
const notCopied: ReadonlySet<PropertyKey> = new Set<PropertyKey>([
  ...methodNames.usedFirst,
  ...methodNames.others,
  "statusCode",
  "statusMessage",
  overlayKey,
]);

/** A response like this one, with what middleware has added to it, that leads to no socket. */
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

const redirected = [
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
const shownInstead = ["headersSent", "statusCode", "statusMessage", "writableEnded"] as const;

/**
 * Helpers that middleware has put on a response lead to the response itself (`res.fail = () => res.status(400).json(…)`):
 * what the handler does with it by them goes to the detached one.
 *
 * @returns what ends that
 */
export function redirect(
  res: ServerResponse,
  detached: ServerResponse,
  isHandlers: () => boolean,
): () => void {
  const undo: (() => void)[] = [];
  const lay = (name: string, laid: PropertyDescriptor) => {
    const own = Object.getOwnPropertyDescriptor(res, name);
    if (own?.configurable === false) return;
    Object.defineProperty(res, name, { ...laid, configurable: true });
    undo.push(() => {
      const there = Object.getOwnPropertyDescriptor(res, name);
      // Other code may have put something else there.
      if (there?.value !== laid.value || there?.get !== laid.get) return;
      if (own === undefined) Reflect.deleteProperty(res, name);
      else Object.defineProperty(res, name, own);
    });
  };
  for (const name of redirected) {
    const original: unknown = Reflect.get(res, name);
    if (typeof original !== "function") continue;
    const value = function (this: ServerResponse, ...args: unknown[]): unknown {
      if (!isHandlers()) return Reflect.apply(original, this, args);
      return Reflect.apply(Reflect.get(detached, name), detached, args);
    };
    lay(name, { value, writable: true });
  }
  for (const name of shownInstead) lay(name, shownOf(res, detached, name, isHandlers));
  return () => {
    for (const each of undo) each();
  };
}

function shownOf(
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
