/** The answer of one run of a handler, collected through a buffered response. */
import type { ServerResponse } from "node:http";
import { Writable } from "node:stream";
import { LatchkeyError } from "../../errors.ts";
import type { Reply } from "../protocol/capture.ts";
import { linesOf, readHead } from "./head.ts";

/** Notified when an answer's state changes without a method call on the response. */
export interface AnswerWatcher {
  changed(answer: BufferedAnswer): void;
}

export class BufferedAnswer {
  /** The error with which a second answer was refused. */
  second: LatchkeyError | null = null;
  /** An object and not a closure: with a closure, requests stay in memory until the old generation is collected. */
  watcher: AnswerWatcher | null = null;
  readonly #limitBytes: number;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #head: Omit<Reply, "body"> | null = null;
  /** Created on first use, because an answer in one piece needs no stream. */
  #stream: Writable | null = null;
  #wholeGiven = false;
  #body: Uint8Array | null = null;
  readonly #ended = Promise.withResolvers<void>();

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Receives the body, and finishes as soon as it is ended. */
  get stream(): Writable {
    this.#stream ??= this.#openStream();
    return this.#stream;
  }

  get ended(): boolean {
    return this.#stream?.writableEnded ?? this.#wholeGiven;
  }

  get writable(): boolean {
    return this.#stream?.writable ?? !this.#wholeGiven;
  }

  get destroyed(): boolean {
    return this.#stream?.destroyed ?? false;
  }

  /** Like a stream's own `emit`. */
  emit(event: string, args: readonly unknown[]): boolean {
    return this.#stream?.emit(event, ...args) ?? false;
  }

  /** Ends the answer, with the arguments of a stream's `end`. */
  end(args: readonly unknown[]): void {
    const whole = this.#stream === null ? wholeBody(args) : null;
    if (whole === null || whole.byteLength > this.#limitBytes) {
      Reflect.apply(this.stream.end, this.stream, args);
      return;
    }
    this.#takeWhole(whole);
  }

  /** Gives head and body in one step. False: the body must be written, because it is too long or the stream is in use. */
  give(head: Omit<Reply, "body">, chunk: unknown): boolean {
    if (this.#stream !== null || this.headSent || this.ended) return false;
    const whole = wholeBody([chunk]);
    if (whole === null || whole.byteLength > this.#limitBytes) return false;
    this.#head = checkedHead(head);
    this.#takeWhole(whole);
    return true;
  }

  #takeWhole(whole: Buffer): void {
    this.#chunks.push(whole);
    this.#wholeGiven = true;
    this.#ended.resolve();
  }

  #openStream(): Writable {
    const { resolve, reject, promise } = this.#ended;
    const stream = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        this.#size += chunk.byteLength;
        if (this.#size > this.#limitBytes) return done(new LatchkeyError("answer-too-large"));
        // A copy, because a producer may reuse its buffer once the chunk was accepted.
        this.#chunks.push(Buffer.from(chunk));
        done();
      },
    });
    stream.once("finish", resolve);
    stream.on("error", (error) => {
      this.watcher?.changed(this);
      reject(error);
    });
    stream.once("close", () => {
      this.watcher?.changed(this);
      if (stream.writableFinished) return;
      const message = "The handler destroyed its response before it ended";
      reject(new LatchkeyError("answer-missing", { message }));
    });
    promise.catch(() => {});
    if (this.#wholeGiven) stream.end();
    return stream;
  }

  get headSent(): boolean {
    return this.#head !== null;
  }

  /** Fixes status and headers. */
  sendHead(res: ServerResponse): void {
    const { statusCode: status, statusMessage: statusText, headers } = readHead(res);
    this.#head = checkedHead({ status, headers: linesOf(headers), ...(statusText ? { statusText } : {}) });
  }

  /** Whether these are the bytes that this answer's `reply` returned. */
  isBody(bytes: Uint8Array): boolean {
    return bytes === this.#body;
  }

  /** @throws {LatchkeyError} `answer-twice` once the answer has ended. */
  requireUnended(): void {
    if (!this.ended) return;
    this.second = new LatchkeyError("answer-twice");
    throw this.second;
  }

  /** @throws {Error} Node's own `ERR_HTTP_HEADERS_SENT`, or as `requireUnended` does. */
  requireHeadUnsent(): void {
    this.requireUnended();
    if (this.#head === null) return;
    const error = new Error("Cannot change status or headers after they are sent to the client");
    throw Object.assign(error, { code: "ERR_HTTP_HEADERS_SENT" });
  }

  /**
   * The answer, once it has ended.
   *
   * @throws {LatchkeyError} `answer-too-large`; `answer-missing` when the response was destroyed; or the error that the
   * handler destroyed it with.
   */
  async reply(): Promise<Reply> {
    await this.#ended.promise;
    const [only] = this.#chunks;
    const body = only !== undefined && this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks);
    this.#body = body;
    const { status, headers, statusText } = this.#head ?? { status: 200, headers: [] };
    return { status, headers, body, ...(statusText !== undefined && { statusText }) };
  }
}

/** @throws {RangeError} when the status is invalid. */
export function checkedHead(head: Omit<Reply, "body">): Omit<Reply, "body"> {
  const { status } = head;
  if (Number.isInteger(status) && status >= 100 && status <= 999) return head;
  throw new RangeError(`Invalid status code: ${status}`);
}

/** The bytes of `end` if it was given the whole body; null if the arguments need a stream. */
export function wholeBody([chunk, encoding, callback]: readonly unknown[]): Buffer | null {
  const plain = encoding === undefined || encoding === null || encoding === "utf8";
  if (!plain || callback !== undefined) return null;
  if (chunk === undefined || chunk === null) return Buffer.alloc(0);
  // A copy, because the handler may reuse its buffer after ending the answer.
  return typeof chunk === "string" || chunk instanceof Uint8Array ? Buffer.from(chunk as string) : null;
}
