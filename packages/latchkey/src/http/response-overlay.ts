/**
 * What is laid over a Node response while it is held. Everything that would touch the socket acts on a `HeldAnswer`;
 * everything else (status, headers before they are sent, `locals`, what middleware has added) is the response's own.
 *
 * It lies on the object itself, not on its prototype: frameworks put handlers of theirs between the two, and swap them
 * (a mounted Express app does).
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { HeldAnswer } from "./held-answer.ts";
import { setHead } from "./response-head.ts";

interface Overlay {
  readonly res: ServerResponse;
  current: HeldAnswer;
  /** Properties of the response that are covered. Node goes on writing some; they take what it writes. */
  readonly covered: Map<string, PropertyDescriptor>;
}

export interface LaidOverlay {
  /** Sets whose answer is being given. */
  setCurrent(answer: HeldAnswer): void;
  /** Whether the real response has begun, past everything laid over it. */
  hasBegun(): boolean;
  /** The real socket. */
  socket(): Socket | null;
  remove(): void;
}

const overlayKey = Symbol("latchkey.overlay");

type Method = (this: ServerResponse, ...args: never[]) => unknown;

/** The response's own, or the view that a handler has of it: both lead to the same overlay. */
function overlayOf(res: ServerResponse): Overlay {
  return Reflect.get(res, overlayKey) as Overlay;
}

function answerOf(res: ServerResponse): HeldAnswer {
  return overlayOf(res).current;
}

/** What the response would do without the overlay. */
function original({ res, covered }: Overlay, name: string): unknown {
  return covered.get(name)?.value ?? Reflect.get(Object.getPrototypeOf(res), name, res);
}

/** Through the response's own method: middleware inside the hold may have wrapped it, to add headers at the last moment. */
function sendImplicitHead(res: ServerResponse): void {
  if (!answerOf(res).headSent) res.writeHead(res.statusCode);
}

function writeHead(this: ServerResponse, status: number, ...rest: unknown[]): ServerResponse {
  const answer = answerOf(this);
  answer.requireHeadUnsent();
  setHead(this, status, rest);
  answer.sendHead(overlayOf(this).res);
  return this;
}

function end(this: ServerResponse, ...args: unknown[]): ServerResponse {
  const answer = answerOf(this);
  const [chunk] = args;
  const empty = chunk === undefined || chunk === null || typeof chunk === "function";
  if (answer.stream.writableEnded && empty) return this;
  answer.requireUnended();
  sendImplicitHead(this);
  Reflect.apply(answer.stream.end, answer.stream, args);
  return this;
}

function write(this: ServerResponse, ...args: unknown[]): unknown {
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
  const heard = !nodeEvents.has(event) && overlay.current.stream.emit(event, ...args);
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
    answerOf(this).requireHeadUnsent();
    const overlay = overlayOf(this);
    const result: unknown = Reflect.apply(original(overlay, name) as Method, overlay.res, args);
    return result === overlay.res ? this : result;
  };
}

function streamMethod(name: string): Method {
  return function (...args) {
    const { stream } = answerOf(this);
    const result: unknown = Reflect.apply(Reflect.get(stream, name), stream, args);
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
    sendImplicitHead(this);
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
  // Node's own, by which its parts and some middleware know whether the head has been sent.
  _header: ({ headSent }) => (headSent ? "held" : null),
  _writableState: ({ stream }) => Reflect.get(stream, "_writableState"),
  closed: ({ stream }) => stream.closed,
  destroyed: ({ stream }) => stream.destroyed,
  errored: ({ stream }) => stream.errored,
  finished: ({ stream }) => stream.writableEnded,
  headersSent: ({ headSent }) => headSent,
  // Libraries watch the socket, through the request too, and stop a source whose client has hung up.
  socket: () => null,
  writable: ({ stream }) => stream.writable,
  writableCorked: ({ stream }) => stream.writableCorked,
  writableEnded: ({ stream }) => stream.writableEnded,
  writableFinished: ({ stream }) => stream.writableFinished,
  writableHighWaterMark: ({ stream }) => stream.writableHighWaterMark,
  writableLength: ({ stream }) => stream.writableLength,
  writableNeedDrain: ({ stream }) => stream.writableNeedDrain,
  writableObjectMode: ({ stream }) => stream.writableObjectMode,
};

/** Made once, for all responses. */
const descriptors: PropertyDescriptorMap = Object.fromEntries([
  ...Object.entries(methods).map(
    ([name, value]) => [name, { value, writable: true, configurable: true }] as const,
  ),
  ...Object.entries(properties).map(([name, read]) => [name, accessor(name, read)] as const),
]);
const names = Object.keys(descriptors);

function accessor(name: string, read: (answer: HeldAnswer) => unknown): PropertyDescriptor {
  return {
    configurable: true,
    get(this: ServerResponse) {
      return read(answerOf(this));
    },
    set(this: ServerResponse, value: unknown) {
      const { res, covered } = overlayOf(this);
      const own = covered.get(name);
      if (own !== undefined && "value" in own) own.value = value;
      else if (name === "socket") Reflect.set(Object.getPrototypeOf(res), name, value, res);
    },
  };
}

/** Where the package `on-finished` keeps those who wait for the socket's end. */
const finishedWatchers = "__onFinished";
const hidden = [...names, "req", finishedWatchers];

function withoutSocket(req: IncomingMessage): IncomingMessage {
  return Object.create(req, { socket: { value: null }, connection: { value: null } });
}

/** Methods through which a handler could still reach somebody's answer. */
export const answeringMethods: ReadonlySet<PropertyKey> = new Set(Object.keys(methods));

export function layOverlay(res: ServerResponse, first: HeldAnswer): LaidOverlay {
  const covered = new Map<string, PropertyDescriptor>();
  for (const name of hidden) {
    const own = Object.getOwnPropertyDescriptor(res, name);
    if (own !== undefined) covered.set(name, own);
  }
  const overlay: Overlay = { res, current: first, covered };
  Object.defineProperty(res, overlayKey, { value: overlay, configurable: true });
  Object.defineProperties(res, {
    ...descriptors,
    req: { value: withoutSocket(res.req), writable: true, configurable: true },
    [finishedWatchers]: { value: undefined, writable: true, configurable: true },
  });
  return {
    setCurrent(answer) {
      overlay.current = answer;
    },
    hasBegun: () => typeof covered.get("_header")?.value === "string",
    socket: () => (original(overlay, "socket") as Socket | null | undefined) ?? null,
    remove() {
      for (const name of hidden) {
        const own = covered.get(name);
        if (own === undefined) Reflect.deleteProperty(res, name);
        else Object.defineProperty(res, name, own);
      }
      Reflect.deleteProperty(res, overlayKey);
    },
  };
}
