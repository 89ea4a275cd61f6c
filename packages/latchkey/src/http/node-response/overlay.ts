/**
 * What is laid over a Node response while it is held. Everything that would touch the socket acts on a `HeldAnswer`;
 * everything else (status, headers before they are sent, `locals`, what middleware has added) is the response's own.
 *
 * It lies on a prototype between the response and its own one, made once for each: V8 takes a prototype that it has seen
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
  beneath,
  coverPrototype,
  isHeld,
  type Method,
  overlayKey,
  prototypeBeneath,
  uncoverPrototype,
  whileHeld,
} from "./buffered-prototype.ts";
import { setHead } from "./head.ts";
import { hasNodesMethods, looksPristine, methodNames, putUsedFirst } from "./method-table.ts";
import { type Held, noteWritten, type Overlay, show, Watcher } from "./overlay-state.ts";

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

/** The response's own, or the view that a handler has of it: both lead to the same overlay. */
function overlayOf(res: ServerResponse): Overlay {
  const overlay = Reflect.get(res, overlayKey) as Overlay;
  if (Object.getPrototypeOf(overlay.res) !== overlay.held)
    overlay.held = coverPrototype(overlay.res, descriptors);
  return overlay;
}

function answerOf(res: ServerResponse): HeldAnswer {
  return overlayOf(res).current;
}

/** What the response would do without the overlay. */
function original({ res, covered, held }: Overlay, name: string): unknown {
  return covered.get(name) ?? Reflect.get(Object.getPrototypeOf(held), name, res);
}

/** Through the response's own method: middleware inside the hold may have wrapped it, to add headers at the last moment. */
function sendImplicitHead(res: ServerResponse): void {
  if (!answerOf(res).headSent) res.writeHead(res.statusCode);
}

/** Whether code other than the handler begins an answer; then the response is not buffered any more. */
function isTaken(res: ServerResponse, status: number): boolean {
  const { bystander, current } = overlayOf(res);
  return bystander !== null && !current.headSent && !current.ended && bystander.takes(res, status);
}

function writeHead(this: ServerResponse, status: number, ...rest: unknown[]): ServerResponse {
  if (isTaken(this, status)) return Reflect.apply(this.writeHead, this, [status, ...rest]);
  const overlay = overlayOf(this);
  const answer = overlay.current;
  answer.requireHeadUnsent();
  // As Node does: a status may be text.
  setHead(this, Math.trunc(Number(status)), rest);
  answer.sendHead(overlay.res);
  show(overlay);
  return this;
}

function end(this: ServerResponse, ...args: unknown[]): ServerResponse {
  if (isTaken(this, this.statusCode)) return Reflect.apply(this.end, this, args);
  const overlay = overlayOf(this);
  const answer = overlay.current;
  const [chunk] = args;
  const empty = chunk === undefined || chunk === null || typeof chunk === "function";
  if (answer.ended && empty) return this;
  answer.requireUnended();
  sendImplicitHead(this);
  answer.end(args);
  show(overlay);
  return this;
}

function write(this: ServerResponse, ...args: unknown[]): unknown {
  if (isTaken(this, this.statusCode)) return Reflect.apply(this.write, this, args);
  const answer = answerOf(this);
  answer.requireUnended();
  sendImplicitHead(this);
  return Reflect.apply(answer.stream.write, answer.stream, args);
}

/** What HTTP allows before and after an answer. All of it may be left out, and here it would tell too early. */
function drop(this: ServerResponse, ...args: unknown[]): void {
  const done = args.at(-1);
  if (typeof done === "function") queueMicrotask(() => done());
}

/** Node emits its own events on the response it knows, whose listeners were there before it was held. */
function emit(this: ServerResponse, event: string, ...args: unknown[]): boolean {
  const overlay = overlayOf(this);
  // A client that hangs up destroys the response, which Node says right before.
  if (event === "close") show(overlay);
  const heard = !nodeEvents.has(event) && overlay.current.emit(event, args);
  return Reflect.apply(original(overlay, "emit") as Method, overlay.res, [event, ...args]) === true || heard;
}

const nodeEvents: ReadonlySet<string> = new Set([
  "close",
  "drain",
  "error",
  "finish",
  "prefinish",
  "socket",
  "timeout",
]);

function headerMethod(name: string): Method {
  return function (...args) {
    const overlay = overlayOf(this);
    overlay.current.requireHeadUnsent();
    overlay.bystander?.changing(this);
    const result: unknown = Reflect.apply(original(overlay, name) as Method, overlay.res, args);
    return result === overlay.res ? this : result;
  };
}

function streamMethod(name: string): Method {
  return function (...args) {
    const overlay = overlayOf(this);
    const { stream } = overlay.current;
    const result: unknown = Reflect.apply(Reflect.get(stream, name), stream, args);
    show(overlay);
    return result === stream ? this : result;
  };
}

const methods: Readonly<Record<string, Method>> = {
  emit,
  end,
  write,
  writeHead,
  writeHeader: writeHead,
  flushHeaders() {
    if (isTaken(this, this.statusCode)) this.flushHeaders();
    else sendImplicitHead(this);
  },
  addTrailers: drop,
  writeContinue: drop,
  writeEarlyHints: drop,
  writeInformation: drop,
  writeProcessing: drop,
  ...made(headerMethod, ["appendHeader", "removeHeader", "setHeader", "setHeaders"]),
  ...made(streamMethod, [
    "addListener",
    "cork",
    "destroy",
    "eventNames",
    "listenerCount",
    "listeners",
    "off",
    "on",
    "once",
    "prependListener",
    "prependOnceListener",
    "rawListeners",
    "removeAllListeners",
    "removeListener",
    "uncork",
  ]),
};

function made(make: (name: string) => Method, names: readonly string[]): Record<string, Method> {
  return Object.fromEntries(names.map((name) => [name, make(name)]));
}

const properties: Readonly<Record<string, (answer: HeldAnswer) => unknown>> = {
  _writableState: ({ stream }) => Reflect.get(stream, "_writableState"),
  closed: ({ stream }) => stream.closed,
  errored: ({ stream }) => stream.errored,
  headersSent: ({ headSent }) => headSent,
  // Libraries watch the socket, through the request too, and stop a source whose client has hung up.
  connection: () => null,
  socket: () => null,
  writableCorked: ({ stream }) => stream.writableCorked,
  writableEnded: ({ ended }) => ended,
  writableFinished: ({ stream }) => stream.writableFinished,
  writableHighWaterMark: ({ stream }) => stream.writableHighWaterMark,
  writableLength: ({ stream }) => stream.writableLength,
  writableNeedDrain: ({ stream }) => stream.writableNeedDrain,
  writableObjectMode: ({ stream }) => stream.writableObjectMode,
};

/** Made once, for all responses. */
const descriptors: PropertyDescriptorMap = Object.fromEntries([
  ...Object.entries(methods).map(
    ([name, method]) =>
      [name, { value: whileHeld(name, method), writable: true, configurable: true }] as const,
  ),
  ...Object.entries(properties).map(([name, read]) => [name, accessor(name, read)] as const),
  ["__onFinished", { value: undefined, writable: true, configurable: true }],
]);

/** On a response that is not held, each is the one beneath. */
export const heldMethods: Readonly<Record<string, unknown>> = Object.create(null, descriptors);

const usedFirst: ReadonlySet<string> = new Set(methodNames.usedFirst);
/** The names that may be covered on the response itself, and the same from the last to the first. */
const ownNames = [...methodNames.usedFirst, ...methodNames.others];
const ownNamesBack = ownNames.toReversed();

function accessor(name: string, read: (answer: HeldAnswer) => unknown): PropertyDescriptor {
  return {
    configurable: true,
    get(this: ServerResponse) {
      return isHeld(this) ? read(answerOf(this)) : beneath(this, name);
    },
    set(this: ServerResponse, value: unknown) {
      if (!isHeld(this)) return void Reflect.set(prototypeBeneath(this), name, value, this);
      const { res, held } = overlayOf(this);
      // A pipelined response gets its socket when its turn comes.
      if (name === "socket" || name === "connection")
        Reflect.set(Object.getPrototypeOf(held), name, value, res);
    },
  };
}

const socketless: ProxyHandler<IncomingMessage> = {
  get: (target, name) => (name === "socket" || name === "connection" ? null : Reflect.get(target, name)),
};

function withoutSocket(req: IncomingMessage): IncomingMessage {
  return new Proxy(req, socketless);
}

/** Methods through which a handler could still reach another answer. */
export const answeringMethods: ReadonlySet<PropertyKey> = new Set(Object.keys(methods));

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
