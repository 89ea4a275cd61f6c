/**
 * One protected request in Fastify's pipeline. An answer is captured when Fastify passes the serialised payload to its `onSend`
 * hooks, and waits there until it is confirmed; later hooks act on what is sent.
 */
import { pipeline, Readable } from "node:stream";
import { LatchkeyError } from "../../errors.ts";
import { insideAttempt } from "../../execution/nesting.ts";
import { type Head, linesOf, readHead, restoreHead, setFields } from "../node-response/head.ts";
import { type LateRun, LazyBuffering } from "../node-response/lazy-buffering.ts";
import { errorStatusMin } from "../node-response/middleware-answers.ts";
import { type ServerResponse, validateHeaderName, validateHeaderValue } from "../node-response/node-http.ts";
import { sendHandlerReply } from "../node-response/node-messages.ts";
import { giveAnswer } from "../node-response/response-interceptor.ts";
import type { Reply } from "../protocol/capture.ts";
import { beforeHandler } from "../protocol/exchange.ts";
import type { Answered } from "../protocol/outcome.ts";
import { bodyText } from "../shared/body-text.ts";
import { adoptReply, ownReply, restoreHeaders } from "./fastify-reply.ts";
import type { FastifyAnswer, FastifyHeaders, SendDone } from "./fastify-types.ts";

/** One run of the handler. */
interface Run {
  own: FastifyAnswer | null;
  waiting: Waiting | null;
  readonly late: LateRun;
  readonly report: (error: unknown) => void;
}

/** The payload that waits, and the callback that lets Fastify continue. */
interface Waiting {
  readonly reply: FastifyAnswer;
  readonly payload: unknown;
  readonly done: SendDone;
  /** The raw response's head at that time, because releasing the response resets it. */
  readonly head: Head;
}

/** The property of a reply that holds its run. A WeakMap of all requests would burden the garbage collector. */
const runKey = Symbol("latchkey.run");

export class FastifyExchange {
  readonly #reply: FastifyAnswer;
  readonly #buffering: LazyBuffering;
  /** The headers before the first run; null: no run has begun. */
  #prepared: FastifyHeaders | null = null;
  /** The run whose answer counts; null: answers pass untouched. */
  #current: Run | null = null;
  #closed = false;
  /** Other code has answered, for instance a time-out. */
  #isTaken = false;
  /** Latchkey's own answer, which replaces the payload after the earlier hooks. */
  #substitute: { readonly answer: Reply; readonly prepared: FastifyHeaders } | null = null;

  constructor(reply: FastifyAnswer, limitBytes: number) {
    this.#reply = reply;
    this.#buffering = new LazyBuffering(reply.raw, limitBytes, (raw) => this.#moveRun(raw));
  }

  /**
   * Runs a handler as Fastify would, on its own clean reply. After the run that reply has no effect.
   */
  run(handle: (reply: FastifyAnswer) => unknown, report: (error: unknown) => void): Promise<Reply> {
    beforeHandler(() => {
      this.#buffering.endRun();
      if (this.#prepared === null) this.#prepared = this.#isTaken ? {} : this.#reply.getHeaders();
      else this.#restoreHeaders();
    });
    return this.#buffering.run((late) => this.#handle(late, handle, report), report);
  }

  async #handle(
    late: LateRun,
    handle: (reply: FastifyAnswer) => unknown,
    report: (error: unknown) => void,
  ): Promise<void> {
    const run: Run = { own: null, waiting: null, late, report };
    this.#current = run;
    // Fastify sets status, serializer, trailers and the like as properties of the reply, so they end with the run.
    const own: FastifyAnswer & { [runKey]?: Run } = beforeHandler(() => this.#ownReply());
    own[runKey] = run;
    run.own = own;
    const result = handle(liveView(own, late));
    const payload: unknown = await result;
    if (payload !== undefined || (isThenable(result) && !own.sent)) own.send(payload);
  }

  #ownReply(): FastifyAnswer {
    const own = ownReply(this.#reply, this.#buffering.res);
    // The request's reply has the headers of another answer.
    if (this.#isTaken) restoreHeaders(own, this.#prepared ?? {});
    return own;
  }

  /** Other code answers the request; the run continues on a response that is discarded. */
  #moveRun(raw: ServerResponse): void {
    this.#isTaken = true;
    if (this.#current?.own) Reflect.set(this.#current.own, "raw", raw);
  }

  /** Whether this answer is not the handler's, but for instance a time-out's. */
  #takes({ raw }: FastifyAnswer): boolean {
    if (this.#isTaken || this.#closed || this.#substitute !== null) return this.#isTaken;
    if (this.#current === null) return true;
    if (this.#current.waiting !== null || insideAttempt() || !(raw.statusCode >= errorStatusMin))
      return false;
    return true;
  }

  /** The `onSend` hook. Never continues payloads from runs that are over. */
  onSend(reply: FastifyAnswer & { [runKey]?: Run }, payload: unknown, done: SendDone): void {
    if (reply[runKey] === undefined && this.#takes(reply)) {
      if (!this.#isTaken) this.#buffering.leave();
      this.#isTaken = true;
      done(null, payload);
      return;
    }
    const run = reply[runKey] ?? this.#current;
    const substitute = this.#substitute;
    if (run !== this.#current) return;
    if (run !== null && !this.#closed) this.#capture(run, reply, payload, done);
    else if (substitute === null) done(null, payload);
    else {
      this.#substitute = null;
      this.#setHead(reply, substitute.answer, substitute.prepared);
      done(null, payloadOf(substitute.answer));
    }
  }

  /** From now on answers pass untouched: error answers, or those of a handler that runs unprotected. */
  open(): void {
    this.#buffering.release(false);
    this.#restoreHeaders();
    this.#current = null;
  }

  /** Resolves once an answer of other code has been sent. */
  async left(): Promise<void> {
    if (this.#isTaken) await new Promise((resolve) => this.#reply.then(resolve, resolve));
  }

  #restoreHeaders(): void {
    if (this.#prepared !== null && !this.#isTaken) restoreHeaders(this.#reply, this.#prepared);
  }

  /** Sends the outcome of a submission through the later hooks. */
  close(answered: Answered): void {
    const { kind, reply } = answered;
    const waiting = this.#current?.waiting ?? null;
    this.#closed = true;
    this.#buffering.release(kind === "handler");
    if (this.#isTaken) return;
    if (waiting !== null) {
      if (kind === "latchkey") restoreHeaders(waiting.reply, this.#prepared ?? {});
      adoptReply(this.#reply, waiting.reply);
    } else if (kind === "latchkey") this.#restoreHeaders();
    const prepared = this.#prepared ?? this.#reply.getHeaders();
    if (waiting !== null && answered.kind === "handler") {
      restoreHead(waiting.reply.raw, waiting.head);
      setStatus(waiting.reply, reply);
      for (const [name, value] of answered.added) waiting.reply.header(name, value);
      waiting.done(null, isWhole(waiting.payload) ? waiting.payload : asBuffer(reply.body));
    } else if (waiting !== null) {
      this.#setHead(waiting.reply, reply, prepared);
      waiting.done(null, payloadOf(reply));
    } else if (kind === "latchkey") {
      this.#current = null;
      this.#substitute = { answer: reply, prepared };
      // Set before `send`, so that earlier hooks see them and Fastify adds no content type.
      setStatus(this.#reply, reply);
      setFields(reply.headers, (name, value) => this.#reply.header(name, value));
      this.#reply.send(reply.body.byteLength === 0 ? undefined : asBuffer(reply.body));
    } else {
      // The handler answered on the raw response, or Fastify's fallback for errors did.
      this.#reply.hijack();
      sendHandlerReply(this.#reply.raw, reply);
    }
  }

  #capture(run: Run, reply: FastifyAnswer, payload: unknown, done: SendDone): void {
    if (run.waiting !== null || reply.raw.writableEnded) {
      run.report(new LatchkeyError("answer-twice"));
      return;
    }
    // A copy, because the producer may reuse its buffer while the payload waits.
    const kept = Buffer.isBuffer(payload) ? Buffer.from(payload) : payload;
    run.waiting = { reply, payload: kept, done, head: readHead(reply.raw) };
    try {
      deliver(run.late, reply, payload, () => deliver(run.late, reply, kept));
    } catch (error) {
      // A header cannot be sent. No caller of this hook would end the attempt, so destroy the response.
      reply.raw.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Sets a reply's status and headers. Removes content headers that hooks may have added for other bytes. */
  #setHead(reply: FastifyAnswer, answer: Reply, prepared: FastifyHeaders): void {
    setStatus(reply, answer);
    const there = reply.getHeaders();
    for (const name of Object.keys(there)) {
      if (!name.startsWith("content-") || name in prepared) continue;
      if (!answer.headers.some(([own]) => own.toLowerCase() === name)) reply.removeHeader(name);
    }
    setFields(answer.headers, (name, value) => {
      if (there[name.toLowerCase()] !== value) reply.header(name, value);
    });
  }
}

/**
 * The payload for Fastify's later hooks. An empty answer becomes undefined, as from a handler that sends nothing, because
 * plugins would digest and compress empty bytes; with a content type it was sent as text or bytes, so it becomes empty text.
 */
function payloadOf({ body, headers }: Reply): string | Buffer | undefined {
  const typed = headers.some(([name]) => name.toLowerCase() === "content-type");
  if (body.byteLength === 0) return typed ? "" : undefined;
  const bytes = asBuffer(body);
  return bodyText(bytes) ?? bytes;
}

/** Not through `reply.code`, which refuses a status above 599. */
function setStatus({ raw }: FastifyAnswer, { status, statusText }: Reply): void {
  raw.statusCode = status;
  if (statusText !== undefined) raw.statusMessage = statusText;
}

/** Takes a payload as the run's answer, or writes it to the buffered raw response, as Fastify does at the end of its pipeline. */
function deliver(late: LateRun, reply: FastifyAnswer, given: unknown, again = () => {}): void {
  const { raw } = reply;
  let payload = given;
  if (payload instanceof Response) {
    reply.code(payload.status);
    for (const [name, value] of payload.headers) reply.header(name, value);
    payload = payload.body;
  }
  const headers = Object.entries(reply.getHeaders()).filter(([, value]) => value !== undefined);
  if (isWhole(payload) && late.give(headOf(raw, headers), payload, again)) return;
  late.buffer();
  if (isWhole(payload) && giveAnswer(raw, headOf(raw, headers), payload)) return;
  for (const [name, value] of headers) raw.setHeader(name, value ?? "");
  if (payload === undefined || payload === null) raw.end();
  else if (isWhole(payload)) raw.end(payload);
  else if (payload instanceof ReadableStream) pipeline(Readable.fromWeb(payload), raw, () => {});
  else if (isReadable(payload)) pipeline(payload, raw, () => {});
  else raw.destroy(new TypeError(`A payload must be text, bytes or a stream (got ${typeof payload})`));
}

function headOf({ statusCode, statusMessage }: ServerResponse, given: Fields): Omit<Reply, "body"> {
  const headers = linesOf(given);
  for (const [name, value] of headers) {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  }
  return { status: statusCode, headers, ...(statusMessage ? { statusText: statusMessage } : {}) };
}

type Fields = readonly (readonly [name: string, value: FastifyHeaders[string]])[];

/** Whether Fastify can send this payload a second time. */
function isWhole(payload: unknown): payload is string | Buffer | null | undefined {
  return payload === undefined || payload === null || typeof payload === "string" || Buffer.isBuffer(payload);
}

function isReadable(payload: unknown): payload is NodeJS.ReadableStream {
  return (
    typeof payload === "object" && payload !== null && "pipe" in payload && typeof payload.pipe === "function"
  );
}

function isThenable(value: unknown): boolean {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** The usual members of a reply. None of them touches the raw response, so it need not be buffered. */
const untouching: ReadonlySet<PropertyKey> = new Set([
  "code",
  "getHeader",
  "getHeaders",
  "hasHeader",
  "header",
  "headers",
  "log",
  "redirect",
  "request",
  "send",
  "sent",
  "serializer",
  "status",
  "statusCode",
  "type",
]);

const settingStatus: ReadonlySet<PropertyKey> = new Set(["code", "redirect", "status", "statusCode"]);

/**
 * The handler's view of a run's reply: once the run is over, it has no effect. Any other member, such as a decorator, may lead
 * to the raw response, so reading one buffers that response.
 */
function liveView(own: FastifyAnswer, late: LateRun): FastifyAnswer {
  const view: FastifyAnswer = new Proxy(own, {
    get(target, name) {
      if (name === "raw") return late.buffer();
      if (late.isLive && !isUntouching(target, name)) late.buffer();
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        if (!late.isLive) return view;
        const result: unknown = Reflect.apply(value, target, args);
        if (settingStatus.has(name)) late.noteStatus();
        return result === target ? view : result;
      };
    },
    set(target, name, value) {
      if (!late.isLive) return true;
      const isSet = Reflect.set(target, name, value);
      if (settingStatus.has(name)) late.noteStatus();
      return isSet;
    },
  });
  return view;
}

/** Includes `then` once an answer was given, because it then only reports that. */
function isUntouching(reply: FastifyAnswer, name: PropertyKey): boolean {
  return untouching.has(name) || typeof name === "symbol" || (name === "then" && reply.sent);
}
