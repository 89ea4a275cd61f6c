/**
 * Buffers a Node response: until it is released, everything written to it is captured and nothing reaches the socket.
 *
 * For the handler the response differs in one way: it has no socket. It always accepts bytes, finishes as soon as it is ended,
 * and does not close when the client hangs up. So a piped source is read to its end, and `await pipeline(source, res)` does not
 * wait for bytes that cannot be sent yet.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { LatchkeyError } from "../../errors.ts";
import { insideAttempt } from "../../execution/nesting.ts";
import type { Reply } from "../protocol/capture.ts";
import { beforeHandler } from "../protocol/exchange.ts";
import { BufferedAnswer } from "./buffered-answer.ts";
import { answeringMethods } from "./buffered-methods.ts";
import { interceptionKey, runOver } from "./buffered-prototype.ts";
import { type Head, isSubstitute, readHead, restoreHead, restoreStatus } from "./head.ts";
import { detachedFrom, MiddlewareAnswers, redirect } from "./middleware-answers.ts";
import { type InstalledInterception, interceptResponse, keepCovered } from "./response-interceptor.ts";

export interface BufferedResponse<Res> {
  /**
   * Runs a handler on a clean response and captures its answer, once the handler has settled and the answer has ended. An
   * earlier run's answer no longer counts. A second answer throws in the handler; the first one wins, and `report` gets the
   * error.
   *
   * @throws {LatchkeyError} `answer-too-large`, `answer-missing`; and whatever the handler throws.
   */
  run(handle: (res: Res) => unknown, report: (error: unknown) => void): Promise<Reply>;
  /**
   * Restores the response to its state before it was buffered. If `sent` is the current answer, which is sent next, its headers
   * stay. Later writes of runs have no effect.
   *
   * `isAnswered`: an answer of a run is sent next, by any code, and no other part of the app answers. Default: whether `sent` is
   * given.
   */
  release(sent?: Reply, isAnswered?: boolean): void;
  /** Records a status that the handler has set past its view. */
  noteStatus(name: "statusCode" | "statusMessage", value: unknown): void;
  /**
   * Leaves the response to other code that answers on it; runs continue on a detached one. Only with `middlewareMayAnswer`.
   *
   * @param head the detached response's head. Default: the head that the handler has set
   */
  leave(head?: Head): void;
}

export interface BufferOptions {
  readonly limitBytes: number;
  /** Whether Express's `req.res` is also a run's view. Only if handlers use views. Default false. */
  readonly replacesReqRes?: boolean;
  /**
   * Whether the client gets an error answer from code other than the handler, such as a time-out. Only if handlers use views.
   * Default false.
   */
  readonly middlewareMayAnswer?: boolean;
  /** Whether the handler, and not other code, uses the response now. Default: inside an attempt. */
  readonly isHandlers?: () => boolean;
  /** Called with the detached response for runs, when this one is left to other code. */
  readonly onLeave?: (detached: ServerResponse) => void;
  /** The head to restore on release. Default: the current one. */
  readonly before?: Head;
}

export function bufferResponse<Res extends ServerResponse>(
  res: Res,
  options: BufferOptions,
): BufferedResponse<Res> {
  return new NodeBufferedResponse(res, options);
}

class NodeBufferedResponse<Res extends ServerResponse> implements BufferedResponse<Res> {
  readonly #res: Res;
  readonly #options: BufferOptions;
  readonly #before: Head;
  readonly #isHandlers: () => boolean;
  readonly #first: BufferedAnswer;
  readonly #helpers: Helpers<Res>;
  readonly #middlewareAnswers: MiddlewareAnswers | null;
  readonly #uncoverSend: () => void;
  /** Of the latest run, or for the first one; null once the response is released. */
  #current: BufferedAnswer | null;
  #interception: InstalledInterception;
  #endRedirect: () => void;
  #hasRun: boolean;
  #hasLeft: boolean;

  constructor(res: Res, options: BufferOptions) {
    const { before = readHead(res), isHandlers = insideAttempt, middlewareMayAnswer = false } = options;
    this.#res = res;
    this.#options = options;
    this.#before = before;
    this.#isHandlers = isHandlers;
    this.#first = new BufferedAnswer(options.limitBytes);
    this.#current = this.#first;
    this.#helpers = new Helpers(res);
    this.#middlewareAnswers = middlewareMayAnswer
      ? new MiddlewareAnswers(res, before, isHandlers, () => this.leave())
      : null;
    this.#interception = interceptResponse(res, this.#first, this.#middlewareAnswers);
    this.#uncoverSend = isSubstitute(res) ? coverSend(res) : nothing;
    this.#endRedirect = nothing;
    this.#hasRun = false;
    this.#hasLeft = false;
    // Middleware has answered before the handler began.
    if (middlewareMayAnswer && this.#interception.hasBegun()) this.leave(emptyHead);
  }

  async run(handle: (res: Res) => unknown, report: (error: unknown) => void): Promise<Reply> {
    const answer = this.#beginRun();
    const bytesBefore = bytesOn(this.#interception.socket());
    try {
      const isLive = () => this.#current === answer;
      const view = new Proxy(this.#res, new RunView<Res>(isLive, this.#helpers, this.#middlewareAnswers));
      if (this.#options.replacesReqRes) this.#interception.replaceReqRes(view);
      await handle(view);
    } catch (error) {
      if (error !== answer.second) throw error;
      report(error);
    }
    const reply = await answer.reply();
    const bytesNow = bytesOn(this.#interception.socket()) ?? bytesBefore;
    if (this.#interception.hasBegun() || (bytesBefore !== null && bytesNow !== bytesBefore)) {
      throw wroteToSocket();
    }
    return reply;
  }

  /** The first run uses the response as it is. */
  #beginRun(): BufferedAnswer {
    const isFirst = !this.#hasRun;
    this.#hasRun = true;
    if (isFirst && this.#current !== null) return this.#current;
    const answer = new BufferedAnswer(this.#options.limitBytes);
    if (isFirst) return answer;
    beforeHandler(() => {
      this.#current = answer;
      this.#helpers.takeBack();
      this.#interception.begin(answer);
      this.#middlewareAnswers?.startRun();
      restoreHead(this.#helpers.res, this.#before);
    });
    return answer;
  }

  leave(given?: Head): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    const own = [...this.#helpers.takeBack()];
    this.#uncoverSend();
    this.#interception.remove(false);
    const head = given ?? this.#middlewareAnswers?.takeHead() ?? emptyHead;
    const detached = detachedFrom(this.#res, this.#res.req, head);
    for (const [name, value] of own) Reflect.set(detached, name, value);
    this.#helpers.res = detached;
    this.#endRedirect = redirect(this.#res, detached, this.#isHandlers);
    this.#interception = interceptResponse(detached, this.#current ?? this.#first);
    this.#options.onLeave?.(detached);
  }

  noteStatus(name: "statusCode" | "statusMessage", value: unknown): void {
    this.#middlewareAnswers?.noteStatus(name, value);
  }

  release(sent?: Reply, isAnswered = sent !== undefined): void {
    const last = this.#current;
    this.#current = null;
    if (sent === undefined) this.#helpers.takeBack();
    else this.#helpers.unwrap();
    this.#uncoverSend();
    this.#interception.remove(isAnswered);
    this.#endRedirect();
    // The response belongs to other code, whose answer may still be in progress.
    if (this.#hasLeft) return;
    if (sent !== undefined && last?.isBody(sent.body)) restoreStatus(this.#res, this.#before);
    else restoreHead(this.#res, this.#before);
  }
}

function nothing(): void {}

export const emptyHead: Head = { statusCode: 200, statusMessage: "", sendDate: true, headers: [] };

/** Routes `send` to `end`, because stand-ins for responses in tests may store its body past `write` and `end`. */
function coverSend(res: ServerResponse): () => void {
  const send: unknown = Reflect.get(res, "send");
  if (typeof send !== "function") return nothing;
  Reflect.set(res, "send", (body?: unknown) => {
    const isChunk = body === undefined || typeof body === "string" || body instanceof Uint8Array;
    return res.end(isChunk ? body : JSON.stringify(body));
  });
  return () => void Reflect.set(res, "send", send);
}

export function wroteToSocket(): LatchkeyError {
  const message = "The handler wrote to the socket, bypassing the buffered response";
  return new LatchkeyError("answer-twice", { message });
}

/**
 * How many bytes were written to the connection so far. Null if unknown: a pipelined response has no connection until its turn,
 * an encrypted connection may write by itself, and a stand-in does not count.
 */
export function bytesOn(socket: Socket | null): number | null {
  if (socket === null || socket.destroyed || "encrypted" in socket) return null;
  const { bytesWritten }: { readonly bytesWritten?: number } = socket;
  return bytesWritten ?? null;
}

/** The view of a handler whose run is over. */
export function revokedView<Res extends ServerResponse>(res: Res): Res {
  return new Proxy(res, new RunView<Res>(() => false, new Helpers(res), null));
}

/** One run's view of the response. Once the run is over, it has no effect. */
class RunView<Res extends ServerResponse> implements ProxyHandler<Res> {
  readonly #isLive: () => boolean;
  readonly #helpers: Helpers<Res>;
  readonly #middlewareAnswers: MiddlewareAnswers | null;

  constructor(isLive: () => boolean, helpers: Helpers<Res>, middlewareAnswers: MiddlewareAnswers | null) {
    this.#isLive = isLive;
    this.#helpers = helpers;
    this.#middlewareAnswers = middlewareAnswers;
  }

  get(_target: Res, name: PropertyKey, view: unknown): unknown {
    if (!this.#isLive()) {
      if (answeringMethods.has(name)) return () => view;
      if (name === interceptionKey) return runOver;
    }
    return Reflect.get(this.#helpers.res, name);
  }

  set(_target: Res, name: PropertyKey, value: unknown): boolean {
    if (!this.#isLive()) return true;
    if (typeof value === "function") this.#helpers.replace(name);
    this.#middlewareAnswers?.noteStatus(name, value);
    return Reflect.set(this.#helpers.res, name, value);
  }

  /** A mounted Express app sets its own prototype on responses. */
  setPrototypeOf(_target: Res, prototype: object | null): boolean {
    if (!this.#isLive()) return true;
    const target = this.#helpers.res;
    const set = Reflect.setPrototypeOf(target, prototype);
    keepCovered(target);
    return set;
  }
}

/**
 * The functions that runs set on a response: helpers that they wrap (`res.json` of Express) or add. They lead to their run's
 * view, so after the run they would have no effect and must be removed.
 */
class Helpers<Res extends ServerResponse> {
  /** The response behind the runs' views. */
  res: Res;
  #replaced: Map<PropertyKey, Replaced> | null = null;

  constructor(res: Res) {
    this.res = res;
  }

  replace(name: PropertyKey): void {
    // The interception itself handles the methods that it covers.
    if (answeringMethods.has(name) || this.#replaced?.has(name)) return;
    this.#replaced ??= new Map();
    const own = Object.getOwnPropertyDescriptor(this.res, name);
    this.#replaced.set(name, { own, isAdded: !(name in this.res) });
  }

  /**
   * Removes the functions after a failed run.
   *
   * @returns the functions that were removed
   */
  takeBack(): ReadonlyMap<PropertyKey, unknown> {
    const set = new Map<PropertyKey, unknown>();
    for (const [name, { own }] of this.#replaced ?? []) {
      set.set(name, Reflect.get(this.res, name));
      this.#put(name, own);
    }
    this.#replaced = null;
    return set;
  }

  /** For the run whose answer is sent: keeps added functions, which middleware may read when the response finishes. */
  unwrap(): void {
    for (const [name, { own, isAdded }] of this.#replaced ?? []) if (!isAdded) this.#put(name, own);
  }

  #put(name: PropertyKey, own: PropertyDescriptor | undefined): void {
    if (own === undefined) Reflect.deleteProperty(this.res, name);
    else Object.defineProperty(this.res, name, own);
  }
}

interface Replaced {
  readonly own: PropertyDescriptor | undefined;
  readonly isAdded: boolean;
}
