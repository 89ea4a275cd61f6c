/**
 * Buffers a Node response only from its first use. Until then the response is watched, and an answer can be given without it.
 * For frameworks that pass their answers to a hook before they write them.
 */
import type { ServerResponse } from "node:http";
import type { Reply } from "../protocol/capture.ts";
import { checkedHead, wholeBody } from "./buffered-answer.ts";
import {
  type BufferedResponse,
  bufferResponse,
  bytesOn,
  emptyHead,
  revokedView,
  wroteToSocket,
} from "./buffered-response.ts";
import { type ResponseWatch, watchResponse } from "./first-use-watch.ts";
import { type Head, readHead, restoreHead } from "./head.ts";

export class LazyBuffering {
  readonly limitBytes: number;
  readonly #onLeave: (res: ServerResponse) => void;
  #res: ServerResponse;
  /** The response was answered before the first run. */
  #isTaken = false;
  /** The head before the first run; null: no run has begun. */
  #before: Head | null = null;
  #watch: ResponseWatch | null = null;
  #buffered: BufferedResponse<ServerResponse> | null = null;
  #current: LateRun | null = null;

  /** @param onLeave called with the detached response for the runs, when other code answers on this one */
  constructor(res: ServerResponse, limitBytes: number, onLeave: (res: ServerResponse) => void) {
    this.#res = res;
    this.limitBytes = limitBytes;
    this.#onLeave = onLeave;
  }

  /** The response that runs use. */
  get res(): ServerResponse {
    return this.#res;
  }

  /**
   * Runs a handler on a clean response and captures its answer, as `BufferedResponse.run` does.
   *
   * @throws as `BufferedResponse.run` does.
   */
  async run(handle: (run: LateRun) => unknown, report: (error: unknown) => void): Promise<Reply> {
    const run = new LateRun(this, report);
    this.#current = run;
    if (this.#isTaken) this.#leaveBefore();
    const { res } = this;
    this.#before ??= readHead(res);
    this.#watch = this.#buffered === null ? watchResponse(res, () => void run.buffer()) : null;
    if (this.#watch === null) run.buffer();
    const bytesBefore = bytesOn(res.socket);
    try {
      await handle(run);
    } catch (error) {
      return run.failed(error);
    }
    const reply = await run.ended();
    const bytesNow = bytesOn(this.res.socket) ?? bytesBefore;
    if (this.#watch?.hasBegun() || (bytesBefore !== null && bytesNow !== bytesBefore)) throw wroteToSocket();
    return reply;
  }

  /** Ends a run before the next one. */
  endRun(): void {
    this.#current = null;
    this.#watch?.stop(false);
    this.#watch = null;
    if (this.#buffered === null && this.#before !== null) restoreHead(this.res, this.#before);
  }

  isCurrent(run: LateRun): boolean {
    return this.#current === run;
  }

  /** Makes the response report that it was answered. False: the answer must be given through the response. */
  showAnswered(): boolean {
    return this.#watch?.showAnswered() ?? false;
  }

  /** Buffers the response from now on. */
  buffer(): BufferedResponse<ServerResponse> {
    const { res, limitBytes } = this;
    // Begun past its methods, which only the handler does, so the answer is the handler's.
    const hasBegun = this.#watch?.hasBegun() === true;
    const left = this.#watch?.stop(false);
    this.#watch = null;
    this.#buffered ??= bufferResponse(res, {
      limitBytes,
      middlewareMayAnswer: !hasBegun,
      before: this.#before ?? readHead(res),
      onLeave: (detached) => {
        this.#res = detached;
        this.#onLeave(detached);
      },
    });
    // Set again while buffered, so that they are removed with the run.
    for (const [name, method] of left ?? []) Reflect.set(res, name, method);
    return this.#buffered;
  }

  /** Leaves the response to other code that answers on it, during a run or before the first one. */
  leave(): void {
    const { res } = this;
    const { statusCode, statusMessage } = res;
    if (this.#current === null) {
      this.#isTaken = true;
      return;
    }
    this.#current.buffer();
    this.#buffered?.leave();
    // These belong to the other code's answer, which is not sent yet.
    res.statusCode = statusCode;
    if (statusMessage !== undefined) res.statusMessage = statusMessage;
  }

  #leaveBefore(): void {
    this.#isTaken = false;
    this.#before = emptyHead;
    this.buffer().leave(emptyHead);
  }

  /** Records a status that the current run's handler has set on the response itself. */
  noteStatus(name: "statusCode" | "statusMessage", value: unknown): void {
    this.#buffered?.noteStatus(name, value);
  }

  /** Restores the response to its state before the runs. `isAnswered`: an answer of a run is sent next. */
  release(isAnswered: boolean): void {
    const before = this.#before;
    this.#current = null;
    if (before === null) return;
    if (this.#buffered === null) {
      this.#watch?.stop(isAnswered);
      restoreHead(this.res, before);
    } else {
      this.#buffered.release(undefined, isAnswered);
    }
  }
}

/** One run of a handler. */
export class LateRun {
  readonly #buffering: LazyBuffering;
  readonly #report: (error: unknown) => void;
  readonly #answer = Promise.withResolvers<Reply>();
  /** Repeats an answer through the response, if it was given without it and the response is buffered later. */
  #giveAgain: (() => void) | null = null;
  #status: Partial<Pick<ServerResponse, "statusCode" | "statusMessage">> = {};
  /** Null while the response is not buffered for this run. */
  #buffered: {
    readonly view: ServerResponse;
    readonly reply: Promise<Reply>;
    readonly handled: PromiseWithResolvers<void>;
  } | null = null;

  constructor(buffering: LazyBuffering, report: (error: unknown) => void) {
    this.#buffering = buffering;
    this.#report = report;
  }

  get isLive(): boolean {
    return this.#buffering.isCurrent(this);
  }

  /** Returns the run's view of the response, which is buffered from this call on. */
  buffer(): ServerResponse {
    if (this.#buffered !== null) return this.#buffered.view;
    const { res } = this.#buffering;
    if (!this.isLive) return revokedView(res);
    const handled = Promise.withResolvers<void>();
    let view = res;
    const reply = this.#buffering.buffer().run((given) => {
      view = given;
      return handled.promise;
    }, this.#report);
    this.#buffered = { view, reply, handled };
    this.#answer.resolve(reply);
    // Callers that await these promises still see the rejection; this only prevents unhandled rejections.
    for (const each of [reply, handled.promise, this.#answer.promise]) each.catch(() => {});
    this.#noteStatus();
    this.#giveAgain?.();
    return view;
  }

  /** Records the response's current status as the handler's. */
  noteStatus(): void {
    const { statusCode, statusMessage } = this.#buffering.res;
    this.#status = { statusCode, ...(statusMessage && { statusMessage }) };
    if (this.#buffered !== null) this.#noteStatus();
  }

  #noteStatus(): void {
    const { statusCode, statusMessage } = this.#status;
    if (statusCode !== undefined) this.#buffering.noteStatus("statusCode", statusCode);
    if (statusMessage !== undefined) this.#buffering.noteStatus("statusMessage", statusMessage);
  }

  /**
   * Takes a whole answer. False: it must be given through the response, because that is buffered or the answer is too long.
   *
   * @param again gives the answer through the response if that is buffered later
   * @throws {RangeError} when the status is invalid
   */
  give(head: Omit<Reply, "body">, chunk: unknown, again: () => void): boolean {
    if (this.#buffered !== null) return false;
    const body = wholeBody([chunk]);
    if (body === null || body.byteLength > this.#buffering.limitBytes) return false;
    const reply = { ...checkedHead(head), body };
    if (!this.#buffering.showAnswered()) return false;
    this.#answer.resolve(reply);
    this.#giveAgain = again;
    return true;
  }

  /** The answer. Call this once the handler has settled. */
  ended(): Promise<Reply> {
    this.#buffered?.handled.resolve();
    return this.#answer.promise;
  }

  /** Rethrows a handler's error, or passes it to the buffered response's run. */
  failed(error: unknown): Promise<Reply> {
    if (this.#buffered === null) throw error;
    this.#buffered.handled.reject(error);
    return this.#buffered.reply;
  }
}
