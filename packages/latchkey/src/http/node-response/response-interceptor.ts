/**
 * Puts the buffered methods and properties on a Node response, and removes them again.
 *
 * They are on a prototype between the response and its own prototype, created once for each. V8 knows the shape of a prototype
 * that it has seen before, but an object whose properties are redefined one by one stays slow everywhere. The properties that
 * Node keeps on the response itself have other values while it is buffered.
 *
 * Frameworks, such as a mounted Express app, also replace prototypes. So the few methods with which every use of a response
 * begins are on the response itself, and insert the buffering prototype again over the current one. A handler's view alone is not
 * enough: handlers can reach the response past it, by `req.next`, Fastify's `reply.raw` or references that middleware kept.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Reply } from "../protocol/capture.ts";
import type { BufferedAnswer } from "./buffered-answer.ts";
import {
  type Buffered,
  bufferedMethods,
  descriptors,
  type Interception,
  interceptionOf,
  noteWritten,
  original,
  show,
  Watcher,
} from "./buffered-methods.ts";
import {
  coverPrototype,
  interceptionKey,
  isBuffered,
  prototypeBeneath,
  uncoverPrototype,
} from "./buffered-prototype.ts";
import { hasNodesMethods, looksUnmodified, methodNames, putUsedFirst } from "./method-table.ts";
import type { MiddlewareAnswers } from "./middleware-answers.ts";
import { ServerResponse } from "./node-http.ts";

export interface InstalledInterception {
  /** Makes this the current answer, and removes methods that an earlier run has put on the response. */
  begin(answer: BufferedAnswer): void;
  /** Sets `req.res` to a run's view, because Express keeps the response there. */
  replaceReqRes(view: ServerResponse): void;
  /** Whether the real response has begun, past the interception. */
  hasBegun(): boolean;
  /** The real socket. */
  socket(): Socket | null;
  /** `isAnswered`: the response is sent next, and no other part of the app needs its own methods. */
  remove(isAnswered: boolean): void;
}

const usedFirst: ReadonlySet<string> = new Set(methodNames.usedFirst);
/** The names that may be covered on the response itself, and the same in reverse order. */
const ownNames = [...methodNames.usedFirst, ...methodNames.others];
const ownNamesBack = ownNames.toReversed();

const socketless: ProxyHandler<IncomingMessage> = {
  get: (target, name) => (name === "socket" || name === "connection" ? null : Reflect.get(target, name)),
};

function withoutSocket(req: IncomingMessage): IncomingMessage {
  return new Proxy(req, socketless);
}

/**
 * Checks before admission that a response can be buffered, so that nothing begins for one that cannot.
 *
 * @throws {TypeError} when it is already buffered, or cannot be buffered.
 */
export function requireBufferable(res: ServerResponse): void {
  requireFree(res);
  // Nearly all responses are unmodified, which this check finds out quickly.
  if (!looksUnmodified(res)) readOwnMethods(res);
}

function requireFree(res: ServerResponse): void {
  if (isBuffered(res)) throw new TypeError(bufferedTwice);
  if (!Object.isExtensible(res))
    throw new TypeError("The response is not extensible, so it cannot be buffered");
}

/**
 * Reads the response's own properties under the names to cover. This comes before any change, so that a response is buffered
 * completely or not at all.
 *
 * @throws {TypeError} when it cannot be buffered.
 */
function readOwnMethods(res: ServerResponse): Pick<Interception, "covered" | "defined"> {
  const covered = new Map<string, unknown>();
  const defined = new Map<string, PropertyDescriptor>();
  for (const name of ownNames) {
    // Faster than reading a descriptor, and most names are absent.
    if (!Object.hasOwn(res, name)) continue;
    const own = Object.getOwnPropertyDescriptor(res, name) ?? {};
    covered.set(name, Reflect.get(res, name));
    if (own.writable === true) continue;
    if (own.configurable !== true) {
      const message = `The response has a \`${name}\` that cannot be redefined, so it cannot be buffered`;
      throw new TypeError(`${message}: define it with \`configurable: true\``);
    }
    defined.set(name, own);
  }
  return { covered, defined };
}

const bufferedTwice =
  "This response is already buffered for another operation: a handler cannot be protected inside a protected handler, nor " +
  "behind `expressRecord`. Mount `expressRecord` over the other routes only, or protect each route once.";

/**
 * Gives the answer of a buffered response in one step, as `writeHead` and `end` would. False: these must be called, because other
 * code has wrapped them, listens, or has begun to write.
 */
export function giveAnswer(res: ServerResponse, head: Omit<Reply, "body">, chunk: unknown): boolean {
  const interception = interceptionOf(res);
  if (isWrapped(interception, "end") || isWrapped(interception, "writeHead")) return false;
  const given = interception.current.give(head, chunk);
  if (given) show(interception);
  return given;
}

function isWrapped({ res, covered }: Interception, name: string): boolean {
  return covered.has(name) || (Object.hasOwn(res, name) && res[name] !== descriptors[name]?.value);
}

/** Restores the buffering prototype if other code has replaced it. */
export function keepCovered(res: ServerResponse): void {
  if (isBuffered(res)) interceptionOf(res);
}

/** @throws {TypeError} when the response is already buffered, or cannot be buffered; it is then unchanged. */
export function interceptResponse(
  response: ServerResponse,
  first: BufferedAnswer,
  middlewareAnswers: MiddlewareAnswers | null = null,
): InstalledInterception {
  requireFree(response);
  const { covered, defined } = readOwnMethods(response);
  const res = response as Buffered;
  const { _header, destroyed, finished, writable } = res;
  // A stand-in for a response in tests may have none.
  const req: IncomingMessage | undefined = res.req;
  const real = { _header, destroyed, finished, writable };
  const interception: Interception = {
    res,
    current: first,
    real,
    shown: { _header, destroyed, finished, writable },
    covered,
    defined,
    middlewareAnswers,
    covering: res,
  };
  if (req !== undefined) Reflect.set(res, "req", withoutSocket(req));
  res[interceptionKey] = interception;
  const keepsShape = covered.size === 0 && installFast(interception);
  interception.covering = coverPrototype(res, descriptors);
  if (!keepsShape) installMethods(interception);
  const watcher = new Watcher(interception);
  const setCurrent = (answer: BufferedAnswer) => {
    interception.current = answer;
    answer.watcher = watcher;
    show(interception);
  };
  setCurrent(first);
  const isKept = req !== undefined && Reflect.get(req, "res") === res;
  return {
    begin(answer) {
      installMethods(interception);
      setCurrent(answer);
    },
    replaceReqRes(view) {
      if (isKept) Reflect.set(req, "res", view);
    },
    hasBegun() {
      noteWritten(res, real, interception.shown);
      // Boolean, because stand-ins for responses, such as Lambda's wrappers, begin with empty text.
      return Boolean(real._header);
    },
    socket: () => (original(interception, "socket") as Socket | null | undefined) ?? null,
    remove(isAnswered) {
      if (isKept) Reflect.set(req, "res", res);
      noteWritten(res, real, interception.shown);
      Object.assign(res, real);
      if (req !== undefined) Reflect.set(res, "req", req);
      if (!(keepsShape && isAnswered && removeFast(interception))) removeMethods(interception);
      // Not deleted: V8 gives up the shape if any but the last property is deleted, and the response is still to be sent.
      res[interceptionKey] = undefined;
      uncoverPrototype(res);
    },
  };
}

/** Puts exactly the methods on the response itself that belong there, and removes others. */
function installMethods({ res, covered, defined }: Interception): void {
  for (const name of ownNames) {
    const value: unknown = descriptors[name]?.value;
    if (defined.has(name)) Object.defineProperty(res, name, { value, writable: true, configurable: true });
    else if (covered.has(name) || usedFirst.has(name)) res[name] = value;
    else if (Object.hasOwn(res, name)) delete res[name];
  }
}

function removeMethods({ res, covered, defined }: Interception): void {
  // In reverse order: V8 can undo the property that was added last, and gives up the shape for any other.
  for (const name of ownNamesBack) {
    if (!Object.hasOwn(res, name)) continue;
    const own = defined.get(name);
    if (own !== undefined) Object.defineProperty(res, name, own);
    else if (covered.has(name)) res[name] = covered.get(name);
    else delete res[name];
  }
}

/**
 * Like `installMethods`, for a response without own methods. Must run before the prototype is covered: in Node 22 each property that
 * is added afterwards costs more than all other buffering. False: use `installMethods`.
 */
function installFast({ res }: Interception): boolean {
  if (!hasNodesMethods(Object.getPrototypeOf(res)) || !putUsedFirst(res, bufferedMethods)) return false;
  for (const name of ["statusCode", "statusMessage"])
    if (!Object.hasOwn(res, name)) Reflect.set(res, name, res[name]);
  return true;
}

/**
 * Replaces the buffered methods by Node's, because V8 gives up a response's shape when a property is deleted. False: a run has left
 * other methods, or the prototype has changed.
 */
function removeFast({ res, covering }: Interception): boolean {
  if (Object.getPrototypeOf(res) !== covering || !hasNodesMethods(prototypeBeneath(res))) return false;
  if (methodNames.others.some((name) => Object.hasOwn(res, name))) return false;
  return putUsedFirst(res, ServerResponse.prototype);
}
