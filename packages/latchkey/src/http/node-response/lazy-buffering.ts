/**
 * Buffering of a Node response that begins when the response is first used. Until then the response is watched, and an answer can be
 * given without it: for frameworks that hand their answers over before they write them.
 */
import type { ServerResponse } from "node:http";
import type { Reply } from "../protocol/capture.ts";
import { checkedHead, wholeBody } from "./buffered-answer.ts";
import {
  type BufferedResponse,
  bytesOn,
  emptyHead,
  holdResponse,
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
  /** The response before the first run; null: there was none. */
  #before: Head | null = null;
  #watch: ResponseWatch | null = null;
  #held: BufferedResponse<ServerResponse> | null = null;
  #current: LateRun | null = null;

  /** @param onLeave called with the response that runs go on with, when other code answers on this one */
  constructor(res: ServerResponse, limitBytes: number, onLeave: (res: ServerResponse) => void) {
    this.#res = res;
    this.limitBytes = limitBytes;
    this.#onLeave = onLeave;
  }

  /** The response of the runs. */
  get res(): ServerResponse {
    return this.#res;
  }

  /**
   * Runs a handler on a clean response and captures its answer, as `BufferedResponse.run` does.
   *
   * @throws as that does.
   */
  async run(handle: (run: LateRun) => unknown, report: (error: unknown) => void): Promise<Reply> {
    const run = new LateRun(this, report);
    this.#current = run;
    if (this.#isTaken) this.#leaveBefore();
    const { res } = this;
    this.#before ??= readHead(res);
    this.#watch = this.#held === null ? watchResponse(res, () => void run.hold()) : null;
    if (this.#watch === null) run.hold();
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

  /** Ends a run that another one is to follow. */
  endRun(): void {
    this.#current = null;
    this.#watch?.stop(false);
    this.#watch = null;
    if (this.#held === null && this.#before !== null) restoreHead(this.res, this.#before);
  }

  isCurrent(run: LateRun): boolean {
    return this.#current === run;
  }

  /** Shows to those who look at the response that an answer has been given. False: it has to be given through the response. */
  showAnswered(): boolean {
    return this.#watch?.showAnswered() ?? false;
  }

  /** The response, held from now on. */
  hold(): BufferedResponse<ServerResponse> {
    const { res, limitBytes } = this;
    // By the handler, past its methods: then the answer is still its own.
    const hasBegun = this.#watch?.hasBegun() === true;
    const left = this.#watch?.stop(false);
    this.#watch = null;
    this.#held ??= holdResponse(res, {
      limitBytes,
      yields: !hasBegun,
      before: this.#before ?? readHead(res),
      onLeave: (detached) => {
        this.#res = detached;
        this.#onLeave(detached);
      },
    });
    // A run's own, which go with it.
    for (const [name, method] of left ?? []) Reflect.set(res, name, method);
    return this.#held;
  }

  /** Leaves the response to the code that answers on it, in the middle of a run or before the first one. */
  leave(): void {
    const { res } = this;
    const { statusCode, statusMessage } = res;
    if (this.#current === null) {
      this.#isTaken = true;
      return;
    }
    this.#current.hold();
    this.#held?.leave();
    // The answer's own, which is not sent yet.
    res.statusCode = statusCode;
    if (statusMessage !== undefined) res.statusMessage = statusMessage;
  }

  #leaveBefore(): void {
    this.#isTaken = false;
    this.#before = emptyHead;
    this.hold().leave(emptyHead);
  }

  /** Notes a status that the current run's handler has set on the response itself. */
  noteStatus(name: "statusCode" | "statusMessage", value: unknown): void {
    this.#held?.noteStatus(name, value);
  }

  /** Gives the response back as it was before. `isAnswered`: an answer of a run is sent next. */
  release(isAnswered: boolean): void {
    const before = this.#before;
    this.#current = null;
    if (before === null) return;
    if (this.#held === null) {
      this.#watch?.stop(isAnswered);
      restoreHead(this.res, before);
    } else {
      this.#held.release(undefined, isAnswered);
    }
  }
}

/** One run of a handler. */
export class LateRun {
  readonly #hold: LazyBuffering;
  readonly #report: (error: unknown) => void;
  readonly #answer = Promise.withResolvers<Reply>();
  /** Gives an answer that was given without the response to the response, once that is held. */
  #giveAgain: (() => void) | null = null;
  #status: Partial<Pick<ServerResponse, "statusCode" | "statusMessage">> = {};
  /** Null while the response is not held for this run. */
  #held: {
    readonly view: ServerResponse;
    readonly reply: Promise<Reply>;
    readonly handled: PromiseWithResolvers<void>;
  } | null = null;

  constructor(hold: LazyBuffering, report: (error: unknown) => void) {
    this.#hold = hold;
    this.#report = report;
  }

  get isLive(): boolean {
    return this.#hold.isCurrent(this);
  }

  /** The run's view of the response. Without it being asked for, the response is not held. */
  hold(): ServerResponse {
    if (this.#held !== null) return this.#held.view;
    const { res } = this.#hold;
    if (!this.isLive) return revokedView(res);
    const handled = Promise.withResolvers<void>();
    let view = res;
    const reply = this.#hold.hold().run((given) => {
      view = given;
      return handled.promise;
    }, this.#report);
    this.#held = { view, reply, handled };
    this.#answer.resolve(reply);
    // Callers that await these promises still see the rejection; this only prevents unhandled rejections.
    for (const each of [reply, handled.promise, this.#answer.promise]) each.catch(() => {});
    this.#noteStatus();
    this.#giveAgain?.();
    return view;
  }

  /** Notes the status that the response has now: the handler's. */
  noteStatus(): void {
    const { statusCode, statusMessage } = this.#hold.res;
    this.#status = { statusCode, ...(statusMessage && { statusMessage }) };
    if (this.#held !== null) this.#noteStatus();
  }

  #noteStatus(): void {
    const { statusCode, statusMessage } = this.#status;
    if (statusCode !== undefined) this.#hold.noteStatus("statusCode", statusCode);
    if (statusMessage !== undefined) this.#hold.noteStatus("statusMessage", statusMessage);
  }

  /**
   * Takes a whole answer. False: it must be given through the response, since that is held, or the answer is too long.
   *
   * @param again gives it through the response, if that is held later on
   * @throws {RangeError} when the status is none
   */
  give(head: Omit<Reply, "body">, chunk: unknown, again: () => void): boolean {
    if (this.#held !== null) return false;
    const body = wholeBody([chunk]);
    if (body === null || body.byteLength > this.#hold.limitBytes) return false;
    const reply = { ...checkedHead(head), body };
    if (!this.#hold.showAnswered()) return false;
    this.#answer.resolve(reply);
    this.#giveAgain = again;
    return true;
  }

  /** The answer, once the handler has done its part. */
  ended(): Promise<Reply> {
    this.#held?.handled.resolve();
    return this.#answer.promise;
  }

  /** What becomes of an error of the handler. */
  failed(error: unknown): Promise<Reply> {
    if (this.#held === null) throw error;
    this.#held.handled.reject(error);
    return this.#held.reply;
  }
}
