/**
 * Holds a Node response: until it is released, whatever is written to it is captured and nothing reaches the socket.
 *
 * To the handler the response looks as usual, with one difference: it has no socket. It always takes bytes, it finishes
 * as soon as it is ended, and a client that hangs up does not close it. So a piped source is read to its end, and
 * `await pipeline(source, res)` does not wait for bytes that cannot leave yet.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Writable } from "node:stream";
import { LatchkeyError } from "../errors.ts";
import type { Reply } from "./capture.ts";
import { headLines, readHead, restoreHead, setHead, wasSent } from "./response-head.ts";

export interface HeldResponse<Res> {
  /**
   * Runs a handler on a clean response and captures its answer: when what it returns has settled and the answer has
   * ended. An earlier run's answer no longer counts. A second answer throws where it is given; the first one wins, and
   * `report` is told.
   *
   * @throws {LatchkeyError} `answer-too-large`, `answer-missing`; and whatever the handler throws.
   */
  run(handle: (res: Res) => unknown, report: (error: unknown) => void): Promise<Reply>;
  /** Gives the response back as it was before. What runs write from now on goes nowhere. */
  release(): void;
}

/** Members of a response that act on its stream. While held they act on a stream that only collects. */
const streamMethods = [
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
] as const;
const streamProperties = [
  "_writableState",
  "closed",
  "destroyed",
  "errored",
  "writable",
  "writableCorked",
  "writableEnded",
  "writableFinished",
  "writableHighWaterMark",
  "writableLength",
  "writableNeedDrain",
  "writableObjectMode",
] as const;
const headerMethods = ["appendHeader", "removeHeader", "setHeader", "setHeaders"] as const;
/** What HTTP allows before and after an answer. All of it may be left out, and here it would tell too early. */
const droppedMethods = [
  "addTrailers",
  "writeContinue",
  "writeEarlyHints",
  "writeInformation",
  "writeProcessing",
] as const;

export function holdResponse<Res extends ServerResponse>(res: Res, limitBytes: number): HeldResponse<Res> {
  const before = readHead(res);
  const overlay = installOverlay(res, () => current);
  const newAnswer = () => new HeldAnswer(res, limitBytes, overlay.socket);
  let current = newAnswer();
  return {
    async run(handle, report) {
      restoreHead(res, before);
      const answer = newAnswer();
      current = answer;
      const view = liveView(res, () => current === answer, overlay.methods);
      try {
        await handle(view);
      } catch (error) {
        if (error !== answer.second) throw error;
        report(error);
      }
      return answer.reply();
    },
    release() {
      current = newAnswer();
      overlay.remove();
      restoreHead(res, before);
    },
  };
}

/** The answer of one run. */
class HeldAnswer {
  /** The error that a second answer was refused with. */
  second: LatchkeyError | null = null;
  readonly stream: Writable;
  readonly #res: ServerResponse;
  readonly #socket: () => Socket | null;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #head: Omit<Reply, "body"> | null = null;
  readonly #ended: Promise<void>;
  readonly #bytesBefore: number | null;

  constructor(res: ServerResponse, limitBytes: number, socket: () => Socket | null) {
    this.#res = res;
    this.#socket = socket;
    this.#bytesBefore = bytesOn(socket());
    this.stream = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        this.#size += chunk.byteLength;
        if (this.#size > limitBytes) return done(new LatchkeyError("answer-too-large"));
        this.#chunks.push(chunk);
        done();
      },
    });
    this.#ended = new Promise((resolve, reject) => {
      this.stream.once("finish", resolve);
      this.stream.on("error", reject);
      const message = "The handler destroyed its response before it ended";
      this.stream.once("close", () => reject(new LatchkeyError("answer-missing", { message })));
    });
    this.#ended.catch(() => {});
  }

  get headSent(): boolean {
    return this.#head !== null;
  }

  /** From here on status and headers stand. */
  sendHead(): void {
    if (this.#head !== null) return;
    const head = readHead(this.#res);
    const { statusCode: status, statusMessage: statusText } = head;
    if (!Number.isInteger(status) || status < 100 || status > 999) {
      throw new RangeError(`Invalid status code: ${status}`);
    }
    this.#head = { status, headers: headLines(head), ...(statusText ? { statusText } : {}) };
  }

  /** @throws {LatchkeyError} `answer-twice` once the answer has ended. */
  requireUnended(): void {
    if (!this.stream.writableEnded) return;
    this.second = new LatchkeyError("answer-twice");
    throw this.second;
  }

  requireHeadUnsent(): void {
    this.requireUnended();
    if (this.#head === null) return;
    const error = new Error("Cannot change status or headers after they are sent to the client");
    throw Object.assign(error, { code: "ERR_HTTP_HEADERS_SENT" });
  }

  async reply(): Promise<Reply> {
    await this.#ended;
    const before = this.#bytesBefore;
    const now = bytesOn(this.#socket());
    if (wasSent(this.#res) || (before !== null && now !== null && now !== before)) {
      throw new LatchkeyError("answer-twice", {
        message: "The handler wrote to the socket, past the response that is held for it",
      });
    }
    this.sendHead();
    return { status: 200, headers: [], ...this.#head, body: Buffer.concat(this.#chunks) };
  }
}

/**
 * How much was written to the connection so far; null where that cannot be told: a pipelined response has no connection
 * until its turn comes, and an encrypted one may write on its own account.
 */
function bytesOn(socket: Socket | null): number | null {
  return socket === null || socket.destroyed || "encrypted" in socket ? null : socket.bytesWritten;
}

interface Overlay {
  readonly methods: ReadonlySet<PropertyKey>;
  /** The real socket. */
  socket(): Socket | null;
  remove(): void;
}

function installOverlay(res: ServerResponse, current: () => HeldAnswer): Overlay {
  const methods = { ...answerMethods(res, current), ...streamMethodsOf(res, current) };
  const properties: Record<string, () => unknown> = {
    headersSent: () => current().headSent,
    finished: () => current().stream.writableEnded,
    // Libraries watch the socket, through the request too, and stop a source whose client has hung up.
    socket: () => null,
  };
  for (const name of streamProperties) properties[name] = () => Reflect.get(current().stream, name);
  const shadowed = new Map<string, PropertyDescriptor | undefined>();
  const cover = (name: string, descriptor: PropertyDescriptor) => {
    shadowed.set(name, Object.getOwnPropertyDescriptor(res, name));
    Object.defineProperty(res, name, { configurable: true, enumerable: false, ...descriptor });
  };
  for (const [name, value] of Object.entries(methods)) cover(name, { value, writable: true });
  for (const [name, get] of Object.entries(properties)) {
    // Node itself writes some of these, for instance when the client hangs up: kept for the day after.
    const set = (value: unknown) => {
      const own = shadowed.get(name);
      if (own !== undefined && "value" in own) shadowed.set(name, { ...own, value });
      else Reflect.set(Object.getPrototypeOf(res), name, value, res);
    };
    cover(name, { get, set });
  }
  cover("req", { value: withoutSocket(res.req), writable: true });
  // Where the package `on-finished` keeps those who wait for the socket's end.
  cover("__onFinished", { value: undefined, writable: true });
  return {
    methods: new Set(Object.keys(methods)),
    socket: () =>
      shadowed.get("socket")?.value ?? Reflect.get(Object.getPrototypeOf(res), "socket", res) ?? null,
    remove() {
      for (const [name, own] of shadowed) {
        if (own === undefined) Reflect.deleteProperty(res, name);
        else Object.defineProperty(res, name, own);
      }
    },
  };
}

function withoutSocket(req: IncomingMessage): IncomingMessage {
  return Object.create(req, { socket: { value: null }, connection: { value: null } });
}

type Method = (this: unknown, ...args: never[]) => unknown;

/** The members through which a handler answers. */
function answerMethods(res: ServerResponse, current: () => HeldAnswer): Record<string, Method> {
  const methods: Record<string, Method> = {
    write(chunk: unknown, encoding?: BufferEncoding, done?: () => void) {
      current().requireUnended();
      current().sendHead();
      return current().stream.write(chunk, encoding as BufferEncoding, done);
    },
    end(...args: unknown[]) {
      const [chunk] = args;
      const answer = current();
      if (
        answer.stream.writableEnded &&
        (chunk === undefined || chunk === null || typeof chunk === "function")
      ) {
        return this;
      }
      answer.requireUnended();
      answer.sendHead();
      Reflect.apply(answer.stream.end, answer.stream, args);
      return this;
    },
    writeHead(status: number, ...rest: unknown[]) {
      current().requireHeadUnsent();
      setHead(res, status, rest);
      current().sendHead();
      return this;
    },
    flushHeaders() {
      current().sendHead();
    },
  };
  methods.writeHeader = methods.writeHead as Method;
  for (const name of headerMethods) {
    const original = res[name];
    methods[name] = function (...args) {
      current().requireHeadUnsent();
      const result: unknown = Reflect.apply(original, res, args);
      return result === res ? this : result;
    };
  }
  for (const name of droppedMethods) {
    methods[name] = (...args: unknown[]) => {
      const done = args.at(-1);
      if (typeof done === "function") queueMicrotask(() => done());
    };
  }
  return methods;
}

function streamMethodsOf(res: ServerResponse, current: () => HeldAnswer): Record<string, Method> {
  const { emit } = res;
  const methods: Record<string, Method> = {
    // Node emits its own events on the response it knows, whose listeners were there before it was held.
    emit(event: string, ...args: unknown[]) {
      const heard = !nodeEvents.has(event) && current().stream.emit(event, ...args);
      return Reflect.apply(emit, res, [event, ...args]) || heard;
    },
  };
  for (const name of streamMethods) {
    methods[name] = function (...args) {
      const { stream } = current();
      const result: unknown = Reflect.apply(Reflect.get(stream, name), stream, args);
      return result === stream ? this : result;
    };
  }
  return methods;
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

/** The response as one run's handler sees it. Once the run is over, it answers nobody any more. */
function liveView<Res extends ServerResponse>(
  res: Res,
  isLive: () => boolean,
  methods: ReadonlySet<PropertyKey>,
): Res {
  const view: Res = new Proxy(res, {
    get(target, name) {
      if (!isLive() && methods.has(name)) return () => view;
      return Reflect.get(target, name);
    },
    set: (target, name, value) => !isLive() || Reflect.set(target, name, value),
  });
  return view;
}
