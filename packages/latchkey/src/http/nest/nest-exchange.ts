/**
 * One protected request in Nest. Nest itself answers, once for each request, with the handler's value after the interceptors.
 * So the value is passed to Nest inside the attempt, and what Nest then writes to the buffered response is the answer.
 */
import type { ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import type { Execution } from "../../engine/classify.ts";
import { LatchkeyError, NotExecuted } from "../../errors.ts";
import { insideAttempt } from "../../execution/nesting.ts";
import type { Attempt, HandlerContext } from "../../operations/attempt.ts";
import { type ReplyState, readReply, restoreReply } from "../fastify/fastify-reply.ts";
import { type BufferedResponse, bufferResponse } from "../node-response/buffered-response.ts";
import { requireUnread, sendOutcome } from "../node-response/submit.ts";
import type { Reply } from "../protocol/capture.ts";
import { beforeHandler, CannotRunAgain, type HttpWork } from "../protocol/exchange.ts";
import type { Answered, HttpOutcome } from "../protocol/outcome.ts";
import { parseJsonBody } from "../protocol/request-body.ts";
import type { NestCallHandler, NestHost, NestObserver, NestPlace, NestStream } from "./nest-types.ts";

/**
 * Finds Node's request and response of an execution context.
 *
 * @throws {TypeError} outside HTTP.
 */
export function placeOf(host: NestHost): NestPlace {
  if (host.getType() !== "http") throw new TypeError("Latchkey protects only HTTP routes of Nest");
  const http = host.switchToHttp();
  const request = http.getRequest();
  const response = http.getResponse();
  const next = http.getNext();
  if ("raw" in response) return { request, message: request.raw, res: response.raw, reply: response, next };
  return { request, message: request, res: response, reply: null, next };
}

export class NestExchange {
  readonly #host: NestHost;
  readonly #place: NestPlace;
  readonly #isKept: boolean;
  /** The status that Nest set before the handler. */
  readonly #status: number;
  readonly #before: ReplyState | null;
  readonly #buffered: BufferedResponse<ServerResponse>;
  #released = false;
  /** Nest has received the value of a run and is about to answer with it. */
  #isGiven = false;
  /** Code other than the handler has answered. */
  #isTaken = false;
  /** Receives the one value or error for Nest; null afterwards. */
  #nest: NestObserver | null = null;
  /** Nest has unsubscribed and answers without the handler, for instance after an interceptor's time-out. */
  #left = false;

  /** @param isKept whether the handler's work stays even if its answer is lost */
  constructor(host: NestHost, place: NestPlace, limitBytes: number, isKept: boolean) {
    this.#host = host;
    this.#place = place;
    this.#isKept = isKept;
    this.#status = place.res.statusCode;
    this.#before = place.reply === null ? null : readReply(place.reply);
    this.#buffered = bufferResponse(place.res, {
      limitBytes,
      middlewareMayAnswer: true,
      // Nest writes the answer outside the attempt's async context.
      isHandlers: () => this.#isGiven || insideAttempt(),
      onLeave: () => {
        this.#isTaken = true;
      },
    });
  }

  /** Submits the request and returns the Observable that Nest expects. */
  take<Tx, E extends Execution, S extends NestStream>(
    next: NestCallHandler<S>,
    enter: (context: HandlerContext<Tx, E>) => void,
    submit: (work: HttpWork<Tx, E>) => Promise<HttpOutcome>,
  ): S {
    return observable(next.handle(), (nest) => {
      this.#nest = nest;
      submit((context, report) => this.#run(next, () => enter(context), report))
        .then(async (outcome) => {
          if (outcome.kind === "pass") {
            this.#release();
            // Only operations without `tx` have this outcome, and their whole context is the attempt.
            const context: { readonly attempt: Attempt } = { attempt: outcome.attempt };
            enter(context as HandlerContext<Tx, E>);
            this.#give(await lastOf(next.handle()));
          } else await this.#answer(outcome);
        })
        .catch((error: unknown) => this.#fail(error));
      return () => this.#leave();
    });
  }

  async #run(
    next: NestCallHandler<NestStream>,
    enter: () => void,
    report: (error: unknown) => void,
  ): Promise<Reply> {
    let isMade = true;
    const reply = await this.#buffered.run(async () => {
      if (this.#nest === null) {
        const message = "The transaction would have to run again, but Nest has already answered";
        throw new CannotRunAgain("rolled_back", { message });
      }
      requireUnread(this.#place.message);
      beforeHandler(() => {
        this.#restoreReply();
        enter();
      });
      const value = await this.#handle(next);
      if (!this.#left) {
        // Fastify's reply has the headers of another answer.
        if (this.#isTaken) this.#restoreReply();
        this.#give(value);
      } else if (!this.#place.res.writableEnded) {
        this.#endWithoutNest(value);
        isMade = false;
      }
    }, report);
    // With `@Res()` on Fastify, the reply has mixed in another answer's headers.
    const isMixed = this.#isTaken && this.#place.reply !== null && answersItself(this.#host);
    if (isMade && !isMixed) return reply;
    return { status: reply.status, headers: [], body: new Uint8Array(0), bodyMissing: true };
  }

  /** Nest has answered, for instance with a time-out: from now on it owns the response. */
  #leave(): void {
    if (this.#nest === null) return;
    this.#left = true;
    const { statusCode, statusMessage } = this.#place.res;
    this.#buffered.noteStatus("statusCode", statusCode);
    if (statusMessage !== undefined) this.#buffered.noteStatus("statusMessage", statusMessage);
    this.#buffered.leave();
    this.#place.res.statusCode = this.#status;
    this.#restoreReply();
  }

  /**
   * Ends a run without an answer from Nest, which turns only one value into an answer.
   *
   * @throws {LatchkeyError} `answer-missing` if the handler's work is rolled back.
   */
  #endWithoutNest(value: unknown): void {
    if (isStreamable(value)) value.getStream().destroy();
    if (!this.#isKept) {
      const message = "Nest answered before its handler had ended, so the transaction is rolled back";
      throw new LatchkeyError("answer-missing", { message });
    }
    this.#place.res.end();
  }

  /** Pipes run before the handler: if they reject its parameters, nothing was executed. */
  #handle(next: NestCallHandler<NestStream>): Promise<unknown> {
    const { request } = this.#place;
    return lastOf(next.handle()).catch((error: unknown) => {
      throw Reflect.get(request, rejectedByPipes) === true ? new NotExecuted({ cause: error }) : error;
    });
  }

  async #answer(outcome: Answered): Promise<void> {
    const unanswered = this.#nest !== null && !this.#left;
    if (unanswered && !answersItself(this.#host)) {
      await this.#buffered.run(() => this.#give(valueIn(outcome.reply)), ignore).catch(ignore);
    }
    this.#release();
    this.#send(outcome);
    this.#give(undefined);
  }

  #fail(failure: unknown): void {
    const { request, reply, next } = this.#place;
    const rejected = failure instanceof NotExecuted && Reflect.get(request, rejectedByPipes) === true;
    const error = rejected ? failure.cause : failure;
    this.#release();
    // The request has been answered; the attempt's event reports the error.
    if (this.#left) return;
    this.#restoreReply();
    if (this.#nest !== null) this.#nest.error(error);
    // Nest's exception filters also accept errors of middleware.
    else if (reply === null) next(error);
    else reply.send(error);
    this.#nest = null;
  }

  #give(value: unknown): void {
    const nest = this.#nest;
    this.#nest = null;
    this.#isGiven = true;
    nest?.next(value);
    nest?.complete();
  }

  #send(outcome: Answered): void {
    const { res } = this.#place;
    if (this.#left) return;
    // Fastify copies its headers to the raw response only when it sends.
    for (const [name, value] of Object.entries(this.#before?.headers ?? {})) {
      if (value !== undefined) res.setHeader(name, value);
    }
    sendOutcome(res, outcome);
  }

  #release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#buffered.release();
  }

  #restoreReply(): void {
    const { reply } = this.#place;
    if (reply !== null && this.#before !== null) restoreReply(reply, this.#before);
  }
}

/** Nest's mark on a request for interceptors, since 11.2.10 and 12. */
const rejectedByPipes = Symbol.for("nestjs:rejected-by-pipes");

function ignore(): void {}

/** Nest's `StreamableFile`. */
function isStreamable(value: unknown): value is { getStream(): Readable } {
  return typeof value === "object" && value !== null && "getStream" in value;
}

/** The answer's value for Nest when no handler has run, so that interceptors get their usual input. */
function valueIn({ headers, body }: Reply): unknown {
  const type = headers.find(([name]) => name.toLowerCase() === "content-type")?.[1] ?? null;
  try {
    return parseJsonBody(body, type);
  } catch {
    return undefined;
  }
}

/** Makes an Observable of Nest's own class; `subscribed` returns a function that is called when Nest unsubscribes. */
function observable<S extends NestStream>(like: S, subscribed: (nest: NestObserver) => () => void): S {
  const { constructor: Observable } = like as unknown as {
    readonly constructor: new (subscribed: (nest: NestObserver) => () => void) => S;
  };
  return new Observable(subscribed);
}

/** The last value of a stream, once it has ended. */
export function lastOf(stream: NestStream): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let last: unknown;
    stream.subscribe({
      next: (value) => {
        last = value;
      },
      error: reject,
      complete: () => resolve(last),
    });
  });
}

/** Whether the handler answers itself, with `@Res()` without `passthrough` or with `@Next()`. */
function answersItself(host: NestHost): boolean {
  const read: unknown = Reflect.get(Reflect, "getMetadata");
  if (typeof read !== "function") return false;
  const controller = host.getClass();
  const name = nameOf(host.getHandler(), controller.prototype);
  const parameters = Object.keys(read("__routeArguments__", controller, name) ?? {});
  // Nest's `RouteParamtypes` for the response and for `next`.
  const takesResponse = parameters.some((key) => key.startsWith("1:") || key.startsWith("2:"));
  return takesResponse && read("__responsePassthrough__", controller, name) !== true;
}

/** The method's name, found by its function, because a decorator may have replaced it by one with another name. */
function nameOf(handler: object, prototype: object): string {
  for (let each: object | null = prototype; each !== null; each = Object.getPrototypeOf(each)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(each))) {
      if (value === handler) return name;
    }
  }
  return "";
}
