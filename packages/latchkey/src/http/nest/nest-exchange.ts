/**
 * One request's way through Nest. Nest answers by itself with what its interceptors have made of a handler's value, once
 * for each request: so the value is given to it inside the attempt, and what it then writes to the held response is the
 * answer.
 */
import type { ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import type { Execution } from "../../engine/classify.ts";
import { LatchkeyError, NotExecuted } from "../../errors.ts";
import { insideAttempt } from "../../execution/nesting.ts";
import type { Attempt, HandlerContext } from "../../operations/attempt.ts";
import { type ReplyState, readReply, restoreReply } from "../fastify/fastify-reply.ts";
import { type BufferedResponse, holdResponse } from "../node-response/buffered-response.ts";
import { requireUnread, sendOutcome } from "../node-response/submit.ts";
import type { Reply } from "../protocol/capture.ts";
import { beforeHandler, CannotRunAgain, type HttpWork } from "../protocol/exchange.ts";
import type { Answered, Outcome } from "../protocol/outcome.ts";
import { parseJsonBody } from "../protocol/request-body.ts";
import type { NestCallHandler, NestHost, NestObserver, NestPlace, NestStream } from "./nest-types.ts";

/**
 * Where a request and its answer are.
 *
 * @throws {TypeError} outside HTTP.
 */
export function placeOf(host: NestHost): NestPlace {
  if (host.getType() !== "http") throw new TypeError("Latchkey protects HTTP routes of Nest, nothing else");
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
  /** What Nest has set before the handler. */
  readonly #status: number;
  readonly #before: ReplyState | null;
  readonly #held: BufferedResponse<ServerResponse>;
  #released = false;
  /** Nest has got the value or the error of a run, and is about to answer with it. */
  #isGiven = false;
  /** Code other than the handler has answered. */
  #isTaken = false;
  /** Takes the one value or error that Nest is given; null from then on. */
  #nest: NestObserver | null = null;
  /** Nest has turned away and answers by itself, for instance because an interceptor's time was over. */
  #left = false;

  /** @param isKept whether what a handler has done stays, however its answer ends */
  constructor(host: NestHost, place: NestPlace, limitBytes: number, isKept: boolean) {
    this.#host = host;
    this.#place = place;
    this.#isKept = isKept;
    this.#status = place.res.statusCode;
    this.#before = place.reply === null ? null : readReply(place.reply);
    this.#held = holdResponse(place.res, {
      limitBytes,
      yields: true,
      // Nest writes what it has been given outside the attempt.
      isHandlers: () => this.#isGiven || insideAttempt(),
      onLeave: () => {
        this.#isTaken = true;
      },
    });
  }

  /** Everything, as the Observable that Nest wants. */
  take<Tx, E extends Execution, S extends NestStream>(
    next: NestCallHandler<S>,
    enter: (context: HandlerContext<Tx, E>) => void,
    submit: (work: HttpWork<Tx, E>) => Promise<Outcome>,
  ): S {
    return observable(next.handle(), (nest) => {
      this.#nest = nest;
      submit((context, report) => this.#run(next, () => enter(context), report))
        .then(async (outcome) => {
          if (outcome.kind === "pass") {
            this.#release();
            // An outcome of operations without `tx` alone, whose whole context is the attempt.
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
    const reply = await this.#held.run(async () => {
      if (this.#nest === null) {
        const message = "The transaction would have to run again, and Nest has answered already";
        throw new CannotRunAgain("rolled_back", { message });
      }
      requireUnread(this.#place.message);
      beforeHandler(() => {
        this.#restoreReply();
        enter();
      });
      const value = await this.#handle(next);
      if (!this.#left) {
        // Fastify's reply has meanwhile had another answer's headers.
        if (this.#isTaken) this.#restoreReply();
        this.#give(value);
      } else if (!this.#place.res.writableEnded) {
        this.#endWithoutNest(value);
        isMade = false;
      }
    }, report);
    // A reply of Fastify's has meanwhile had another answer's headers.
    const isMixed = this.#isTaken && this.#place.reply !== null && answersItself(this.#host);
    if (isMade && !isMixed) return reply;
    return { status: reply.status, headers: [], body: new Uint8Array(0), bodyMissing: true };
  }

  /** Nest has answered, with a time-out for instance: the response is its own from now on. */
  #leave(): void {
    if (this.#nest === null) return;
    this.#left = true;
    const { statusCode, statusMessage } = this.#place.res;
    this.#held.noteStatus("statusCode", statusCode);
    if (statusMessage !== undefined) this.#held.noteStatus("statusMessage", statusMessage);
    this.#held.leave();
    this.#place.res.statusCode = this.#status;
    this.#restoreReply();
  }

  /**
   * Only Nest and its interceptors can make an answer of a value, and they do it once.
   *
   * @throws {LatchkeyError} `answer-missing` where what the handler has done is undone.
   */
  #endWithoutNest(value: unknown): void {
    if (isStreamable(value)) value.getStream().destroy();
    if (!this.#isKept) {
      const message = "Nest answered before its handler had ended, so the transaction is rolled back";
      throw new LatchkeyError("answer-missing", { message });
    }
    this.#place.res.end();
  }

  /** Pipes come before the handler: where they reject its parameters, nothing has happened. */
  #handle(next: NestCallHandler<NestStream>): Promise<unknown> {
    const { request } = this.#place;
    return lastOf(next.handle()).catch((error: unknown) => {
      throw Reflect.get(request, rejectedByPipes) === true ? new NotExecuted({ cause: error }) : error;
    });
  }

  async #answer(outcome: Answered): Promise<void> {
    const unanswered = this.#nest !== null && !this.#left;
    if (unanswered && !answersItself(this.#host)) {
      await this.#held.run(() => this.#give(valueIn(outcome.reply)), ignore).catch(ignore);
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
    // The request has been answered; the attempt's event tells of the error.
    if (this.#left) return;
    this.#restoreReply();
    if (this.#nest !== null) this.#nest.error(error);
    // Nest's exception filters have a second entrance, for errors of middleware.
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
    // Fastify lays its own headers over the raw response's only when it sends.
    for (const [name, value] of Object.entries(this.#before?.headers ?? {})) {
      if (value !== undefined) res.setHeader(name, value);
    }
    sendOutcome(res, outcome);
  }

  #release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#held.release();
  }

  #restoreReply(): void {
    const { reply } = this.#place;
    if (reply !== null && this.#before !== null) restoreReply(reply, this.#before);
  }
}

/** Nest's mark on a request, for interceptors; since Nest 12, and in 11.2.10. */
const rejectedByPipes = Symbol.for("nestjs:rejected-by-pipes");

function ignore(): void {}

/** Nest's `StreamableFile`. */
function isStreamable(value: unknown): value is { getStream(): Readable } {
  return typeof value === "object" && value !== null && "getStream" in value;
}

/** What Nest is given where no handler has run: the answer's value, so that interceptors find what they are used to. */
function valueIn({ headers, body }: Reply): unknown {
  const type = headers.find(([name]) => name.toLowerCase() === "content-type")?.[1] ?? null;
  try {
    return parseJsonBody(body, type);
  } catch {
    return undefined;
  }
}

/** An Observable of the class that Nest itself uses; `subscribed` returns what to do when Nest turns away. */
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

/** Whether Nest leaves the answer to the handler, as it does for `@Res()` without `passthrough` and for `@Next()`. */
function answersItself(host: NestHost): boolean {
  const read: unknown = Reflect.get(Reflect, "getMetadata");
  if (typeof read !== "function") return false;
  const controller = host.getClass();
  const name = nameOf(host.getHandler(), controller.prototype);
  const parameters = Object.keys(read("__routeArguments__", controller, name) ?? {});
  // Nest's numbers for the response and for `next`.
  const takesResponse = parameters.some((key) => key.startsWith("1:") || key.startsWith("2:"));
  return takesResponse && read("__responsePassthrough__", controller, name) !== true;
}

/** A decorator may have put a function of another name in the method's place. */
function nameOf(handler: object, prototype: object): string {
  for (let each: object | null = prototype; each !== null; each = Object.getPrototypeOf(each)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(each))) {
      if (value === handler) return name;
    }
  }
  return "";
}
