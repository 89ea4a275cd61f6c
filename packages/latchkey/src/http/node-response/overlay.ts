/**
 * Lays the held methods and properties over a Node response, and takes them away again.
 *
 * They lie on a prototype between the response and its own one, made once for each: V8 takes a prototype that it has seen
 * before as a known shape, while an object whose properties are redefined one by one is slow from then on, everywhere. What
 * Node keeps in properties of the response itself gets other values while it is held.
 *
 * Frameworks swap prototypes too (a mounted Express app does). So a few methods, by which a response is used first, lie on
 * the response itself, and put the held prototype back above whatever is there then. A handler's view does not replace
 * them: the response itself can be reached past it, by `req.next`, Fastify's `reply.raw` or what middleware has kept.
 */
import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Bystander } from "../protocol/bystander.ts";
import type { Reply } from "../protocol/capture.ts";
import type { HeldAnswer } from "./buffered-answer.ts";
import {
  coverPrototype,
  isHeld,
  overlayKey,
  prototypeBeneath,
  uncoverPrototype,
} from "./buffered-prototype.ts";
import {
  descriptors,
  type Held,
  heldMethods,
  noteWritten,
  type Overlay,
  original,
  overlayOf,
  show,
  Watcher,
} from "./held-methods.ts";
import { hasNodesMethods, looksPristine, methodNames, putUsedFirst } from "./method-table.ts";

export interface LaidOverlay {
  /** Sets whose answer is being given from now on, and takes away what an earlier run has put over the response's methods. */
  begin(answer: HeldAnswer): void;
  /** Lets the request, too, lead to a run's view: Express keeps its response there. */
  lend(view: ServerResponse): void;
  /** Whether the real response has begun, past everything laid over it. */
  hasBegun(): boolean;
  /** The real socket. */
  socket(): Socket | null;
  /** `isAnswered`: the response is sent next, and goes to no other part of an app, whose methods it would need. */
  remove(isAnswered: boolean): void;
}

const usedFirst: ReadonlySet<string> = new Set(methodNames.usedFirst);
/** The names that may be covered on the response itself, and the same from the last to the first. */
const ownNames = [...methodNames.usedFirst, ...methodNames.others];
const ownNamesBack = ownNames.toReversed();

const socketless: ProxyHandler<IncomingMessage> = {
  get: (target, name) => (name === "socket" || name === "connection" ? null : Reflect.get(target, name)),
};

function withoutSocket(req: IncomingMessage): IncomingMessage {
  return new Proxy(req, socketless);
}

/**
 * Looks beforehand whether a response can be held, so that nothing is begun for one that cannot.
 *
 * @throws {TypeError} when it is held already, or cannot be.
 */
export function requireHoldable(res: ServerResponse): void {
  requireFree(res);
  // Nearly all are as Node has made them, which this tells at a glance.
  if (!looksPristine(res)) readOwnMethods(res);
}

function requireFree(res: ServerResponse): void {
  if (isHeld(res)) throw new TypeError(heldTwice);
  if (!Object.isExtensible(res)) throw new TypeError("The response is not extensible, so it cannot be held");
}

/**
 * What a response has of its own under the names that will be covered, read before anything is changed: it is held as a
 * whole or not at all.
 *
 * @throws {TypeError} when it cannot be held.
 */
function readOwnMethods(res: ServerResponse): Pick<Overlay, "covered" | "defined"> {
  const covered = new Map<string, unknown>();
  const defined = new Map<string, PropertyDescriptor>();
  for (const name of ownNames) {
    // Most are not there, which this tells faster than a description does.
    if (!Object.hasOwn(res, name)) continue;
    const own = Object.getOwnPropertyDescriptor(res, name) ?? {};
    covered.set(name, Reflect.get(res, name));
    if (own.writable === true) continue;
    if (own.configurable !== true) {
      const message = `The response has a \`${name}\` that cannot be redefined, so it cannot be held`;
      throw new TypeError(`${message}: define it with \`configurable: true\``);
    }
    defined.set(name, own);
  }
  return { covered, defined };
}

const heldTwice =
  "This response is held for another operation already: a handler cannot be protected inside a protected handler, nor " +
  "behind `expressRecord`. Mount `expressRecord` over the other routes only, or protect each route once.";

/**
 * Gives the answer of a held response at once, as `writeHead` and `end` would. False: they must be used, since somebody
 * has wrapped them, writes already or listens.
 */
export function giveAnswer(res: ServerResponse, head: Omit<Reply, "body">, chunk: unknown): boolean {
  const overlay = overlayOf(res);
  if (isWrapped(overlay, "end") || isWrapped(overlay, "writeHead")) return false;
  const given = overlay.current.give(head, chunk);
  if (given) show(overlay);
  return given;
}

function isWrapped({ res, covered }: Overlay, name: string): boolean {
  return covered.has(name) || (Object.hasOwn(res, name) && res[name] !== descriptors[name]?.value);
}

/** Puts the buffering prototype back where other code has given the response another one. */
export function keepCovered(res: ServerResponse): void {
  if (isHeld(res)) overlayOf(res);
}

/** @throws {TypeError} when the response is held already, or cannot be; then it is as it was. */
export function layOverlay(
  response: ServerResponse,
  first: HeldAnswer,
  bystander: Bystander | null = null,
): LaidOverlay {
  requireFree(response);
  const { covered, defined } = readOwnMethods(response);
  const res = response as Held;
  const { _header, destroyed, finished, writable } = res;
  // What tests use in a response's place may have none.
  const req: IncomingMessage | undefined = res.req;
  const real = { _header, destroyed, finished, writable };
  const overlay: Overlay = {
    res,
    current: first,
    real,
    shown: { _header, destroyed, finished, writable },
    covered,
    defined,
    bystander,
    held: res,
  };
  if (req !== undefined) Reflect.set(res, "req", withoutSocket(req));
  res[overlayKey] = overlay;
  const keepsShape = covered.size === 0 && layFast(overlay);
  overlay.held = coverPrototype(res, descriptors);
  if (!keepsShape) layOwn(overlay);
  const watcher = new Watcher(overlay);
  const setCurrent = (answer: HeldAnswer) => {
    overlay.current = answer;
    answer.watcher = watcher;
    show(overlay);
  };
  setCurrent(first);
  const isKept = req !== undefined && Reflect.get(req, "res") === res;
  return {
    begin(answer) {
      layOwn(overlay);
      setCurrent(answer);
    },
    lend(view) {
      if (isKept) Reflect.set(req, "res", view);
    },
    hasBegun() {
      noteWritten(res, real, overlay.shown);
      // Empty text is what stand-ins for responses begin with, those of Lambda's wrappers for instance.
      return Boolean(real._header);
    },
    socket: () => (original(overlay, "socket") as Socket | null | undefined) ?? null,
    remove(isAnswered) {
      if (isKept) Reflect.set(req, "res", res);
      noteWritten(res, real, overlay.shown);
      Object.assign(res, real);
      if (req !== undefined) Reflect.set(res, "req", req);
      if (!(keepsShape && isAnswered && removeFast(overlay))) removeOwn(overlay);
      // Not deleted: a shape is given up when any but the last property goes, and the response still has to be sent.
      res[overlayKey] = undefined;
      uncoverPrototype(res);
    },
  };
}

/** Lays the methods on the response itself that lie there, and no others. */
function layOwn({ res, covered, defined }: Overlay): void {
  for (const name of ownNames) {
    const value: unknown = descriptors[name]?.value;
    if (defined.has(name)) Object.defineProperty(res, name, { value, writable: true, configurable: true });
    else if (covered.has(name) || usedFirst.has(name)) res[name] = value;
    else if (Object.hasOwn(res, name)) delete res[name];
  }
}

function removeOwn({ res, covered, defined }: Overlay): void {
  // In the opposite order: V8 undoes the property that was added last, and gives up the shape for any other.
  for (const name of ownNamesBack) {
    if (!Object.hasOwn(res, name)) continue;
    const own = defined.get(name);
    if (own !== undefined) Object.defineProperty(res, name, own);
    else if (covered.has(name)) res[name] = covered.get(name);
    else delete res[name];
  }
}

/**
 * The same as `layOwn`, for a response that has nothing of its own there, before its prototype is covered: in Node 22 each
 * property that comes after that costs more than the whole hold. False: `layOwn` has to do it.
 */
function layFast({ res }: Overlay): boolean {
  if (!hasNodesMethods(Object.getPrototypeOf(res)) || !putUsedFirst(res, heldMethods)) return false;
  for (const name of ["statusCode", "statusMessage"])
    if (!Object.hasOwn(res, name)) Reflect.set(res, name, res[name]);
  return true;
}

/**
 * Leaves Node's methods where the held ones lay: V8 gives up the shape of a response that a property is deleted from. False:
 * a run has left something else there, or the prototype is another now.
 */
function removeFast({ res, held }: Overlay): boolean {
  if (Object.getPrototypeOf(res) !== held || !hasNodesMethods(prototypeBeneath(res))) return false;
  if (methodNames.others.some((name) => Object.hasOwn(res, name))) return false;
  return putUsedFirst(res, ServerResponse.prototype);
}
