/**
 * The methods and properties of a Node response while it is buffered. Those that would touch the socket act on a `BufferedAnswer`;
 * all others (status, headers before they are sent, `locals`, additions of middleware) are the response's own.
 */
import type { ServerResponse } from "node:http";
import type { AnswerWatcher, BufferedAnswer } from "./buffered-answer.ts";
import {
  beneath,
  coverPrototype,
  interceptionKey,
  isBuffered,
  type Method,
  prototypeBeneath,
  whileBuffered,
} from "./buffered-prototype.ts";
import { setHead } from "./head.ts";
import type { MiddlewareAnswers } from "./middleware-answers.ts";

/** Node's private properties of each response, which Node continues to write while it is buffered. */
interface NodeState {
  _header: string | null;
  destroyed: boolean;
  finished: boolean;
  writable: boolean;
}

export type Buffered = ServerResponse & NodeState & Record<PropertyKey, unknown>;

/** The state of a buffered response. */
export interface Interception {
  readonly res: Buffered;
  current: BufferedAnswer;
  /** Node's values, and the values shown instead. If a property differs from the shown value, Node has written it. */
  readonly real: NodeState;
  readonly shown: NodeState;
  /** The response's own properties under the covered names: mostly methods that middleware has wrapped. */
  readonly covered: Map<string, unknown>;
  /** Their descriptors, for properties that cannot be assigned. */
  readonly defined: Map<string, PropertyDescriptor>;
  /** Null if the handler works on the response itself, so that its answer cannot be distinguished from other code's. */
  readonly middlewareAnswers: MiddlewareAnswers | null;
  /** The prototype that covers the response's own. */
  covering: object;
}

/** Shows changes of the current answer, but not of earlier ones. */
export class Watcher implements AnswerWatcher {
  readonly #interception: Interception;

  constructor(interception: Interception) {
    this.#interception = interception;
  }

  changed(answer: BufferedAnswer): void {
    const { current, res } = this.#interception;
    if (current === answer && res[interceptionKey] === this.#interception) show(this.#interception);
  }
}

/** Saves the values that Node has written to its properties, and shows the buffered answer's state again. */
export function show({ res, real, shown, current }: Interception): void {
  noteWritten(res, real, shown);
  res._header = shown._header = current.headSent ? bufferedHeader : null;
  res.destroyed = shown.destroyed = current.destroyed;
  res.finished = shown.finished = current.ended;
  res.writable = shown.writable = current.writable;
}

export function noteWritten(res: NodeState, real: NodeState, shown: NodeState): void {
  if (res._header !== shown._header) real._header = res._header;
  if (res.destroyed !== shown.destroyed) real.destroyed = res.destroyed;
  if (res.finished !== shown.finished) real.finished = res.finished;
  if (res.writable !== shown.writable) real.writable = res.writable;
}

/** Any text: Node and some middleware take it to mean that the head has been sent. */
const bufferedHeader = "buffered";

/** The interception of a buffered response or of a handler's view of it. Restores the buffering prototype if it was replaced. */
export function interceptionOf(res: ServerResponse): Interception {
  const interception = Reflect.get(res, interceptionKey) as Interception;
  if (Object.getPrototypeOf(interception.res) !== interception.covering)
    interception.covering = coverPrototype(interception.res, descriptors);
  return interception;
}

function answerOf(res: ServerResponse): BufferedAnswer {
  return interceptionOf(res).current;
}

/** The member that the response would have without the interception. */
export function original({ res, covered, covering }: Interception, name: string): unknown {
  return covered.get(name) ?? Reflect.get(Object.getPrototypeOf(covering), name, res);
}

/** Calls the response's own method, because middleware may have wrapped it during the buffering, to add headers last. */
function sendImplicitHead(res: ServerResponse): void {
  if (!answerOf(res).headSent) res.writeHead(res.statusCode);
}

/** Whether code other than the handler begins an answer; if so, the response is no longer buffered. */
function isTaken(res: ServerResponse, status: number): boolean {
  const { middlewareAnswers, current } = interceptionOf(res);
  return (
    middlewareAnswers !== null && !current.headSent && !current.ended && middlewareAnswers.takes(res, status)
  );
}

function writeHead(this: ServerResponse, status: number, ...rest: unknown[]): ServerResponse {
  if (isTaken(this, status)) return Reflect.apply(this.writeHead, this, [status, ...rest]);
  const interception = interceptionOf(this);
  const answer = interception.current;
  answer.requireHeadUnsent();
  // Like Node, accepts a status as text.
  setHead(this, Math.trunc(Number(status)), rest);
  answer.sendHead(interception.res);
  show(interception);
  return this;
}

function end(this: ServerResponse, ...args: unknown[]): ServerResponse {
  if (isTaken(this, this.statusCode)) return Reflect.apply(this.end, this, args);
  const interception = interceptionOf(this);
  const answer = interception.current;
  const [chunk] = args;
  const empty = chunk === undefined || chunk === null || typeof chunk === "function";
  if (answer.ended && empty) return this;
  answer.requireUnended();
  sendImplicitHead(this);
  answer.end(args);
  show(interception);
  return this;
}

function write(this: ServerResponse, ...args: unknown[]): unknown {
  if (isTaken(this, this.statusCode)) return Reflect.apply(this.write, this, args);
  const answer = answerOf(this);
  answer.requireUnended();
  sendImplicitHead(this);
  return Reflect.apply(answer.stream.write, answer.stream, args);
}

/** Drops informational responses and trailers: HTTP allows that, and sending them would reveal an unconfirmed answer. */
function drop(this: ServerResponse, ...args: unknown[]): void {
  const done = args.at(-1);
  if (typeof done === "function") queueMicrotask(() => done());
}

/** Node emits its own events on the response itself, whose listeners were added before it was buffered. */
function emit(this: ServerResponse, event: string, ...args: unknown[]): boolean {
  const interception = interceptionOf(this);
  // If the client hangs up, Node marks the response as destroyed right before this.
  if (event === "close") show(interception);
  const isHandled = !nodeEvents.has(event) && interception.current.emit(event, args);
  return (
    Reflect.apply(original(interception, "emit") as Method, interception.res, [event, ...args]) === true ||
    isHandled
  );
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
    const interception = interceptionOf(this);
    interception.current.requireHeadUnsent();
    interception.middlewareAnswers?.changing(this);
    const result: unknown = Reflect.apply(original(interception, name) as Method, interception.res, args);
    return result === interception.res ? this : result;
  };
}

function streamMethod(name: string): Method {
  return function (...args) {
    const interception = interceptionOf(this);
    const { stream } = interception.current;
    const result: unknown = Reflect.apply(Reflect.get(stream, name), stream, args);
    show(interception);
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

const properties: Readonly<Record<string, (answer: BufferedAnswer) => unknown>> = {
  _writableState: ({ stream }) => Reflect.get(stream, "_writableState"),
  closed: ({ stream }) => stream.closed,
  errored: ({ stream }) => stream.errored,
  headersSent: ({ headSent }) => headSent,
  // Null, because libraries watch the socket, also through the request, and stop a source when the client hangs up.
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

/** Created once for all responses. */
export const descriptors: PropertyDescriptorMap = Object.fromEntries([
  ...Object.entries(methods).map(
    ([name, method]) =>
      [name, { value: whileBuffered(name, method), writable: true, configurable: true }] as const,
  ),
  ...Object.entries(properties).map(([name, read]) => [name, accessor(name, read)] as const),
  ["__onFinished", { value: undefined, writable: true, configurable: true }],
]);

/** On a response that is not buffered, each acts as the method beneath. */
export const bufferedMethods: Readonly<Record<string, unknown>> = Object.create(null, descriptors);

function accessor(name: string, read: (answer: BufferedAnswer) => unknown): PropertyDescriptor {
  return {
    configurable: true,
    get(this: ServerResponse) {
      return isBuffered(this) ? read(answerOf(this)) : beneath(this, name);
    },
    set(this: ServerResponse, value: unknown) {
      if (!isBuffered(this)) return void Reflect.set(prototypeBeneath(this), name, value, this);
      const { res, covering } = interceptionOf(this);
      // Node assigns the socket of a pipelined response when its turn comes.
      if (name === "socket" || name === "connection")
        Reflect.set(Object.getPrototypeOf(covering), name, value, res);
    },
  };
}

/** Methods through which a handler could still affect another answer after its run. */
export const answeringMethods: ReadonlySet<PropertyKey> = new Set(Object.keys(methods));
