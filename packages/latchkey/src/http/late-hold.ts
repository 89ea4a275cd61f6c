/**
 * A hold of a Node response that begins when somebody uses it. Until then the response is watched, and an answer can be
 * given without it: for frameworks that hand their answers over before they write them.
 */
import type { ServerResponse } from "node:http";
import type { Reply } from "./capture.ts";
import { checkedHead, wholeBody } from "./held-answer.ts";
import { bytesOn, deadView, type HeldResponse, holdResponse, wroteToSocket } from "./held-response.ts";
import { type Head, readHead, restoreHead } from "./response-head.ts";
import { type ResponseWatch, watchResponse } from "./watched-response.ts";

export class LateHold {
  readonly res: ServerResponse;
  readonly limitBytes: number;
  /** The response before the first run; null: there was none. */
  #before: Head | null = null;
  #watch: ResponseWatch | null = null;
  #held: HeldResponse<ServerResponse> | null = null;
  #current: LateRun | null = null;

  constructor(res: ServerResponse, limitBytes: number) {
    this.res = res;
    this.limitBytes = limitBytes;
  }

  /**
   * Runs a handler on a clean response and captures its answer, as `HeldResponse.run` does.
   *
   * @throws as that does.
   */
  async run(handle: (run: LateRun) => unknown, report: (error: unknown) => void): Promise<Reply> {
    const { res } = this;
    const run = new LateRun(this, report);
    this.#current = run;
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
    const bytesNow = bytesOn(res.socket) ?? bytesBefore;
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
  hold(): HeldResponse<ServerResponse> {
    const { res, limitBytes } = this;
    const left = this.#watch?.stop(false);
    this.#watch = null;
    this.#held ??= holdResponse(res, { limitBytes, before: this.#before ?? readHead(res) });
    // A run's own, which go with it.
    for (const [name, method] of left ?? []) Reflect.set(res, name, method);
    return this.#held;
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
  readonly #hold: LateHold;
  readonly #report: (error: unknown) => void;
  readonly #answer = Promise.withResolvers<Reply>();
  /** Gives an answer that was given without the response to the response, once that is held. */
  #giveAgain: (() => void) | null = null;
  /** Null while the response is not held for this run. */
  #held: {
    readonly view: ServerResponse;
    readonly reply: Promise<Reply>;
    readonly handled: PromiseWithResolvers<void>;
  } | null = null;

  constructor(hold: LateHold, report: (error: unknown) => void) {
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
    if (!this.isLive) return deadView(res);
    const handled = Promise.withResolvers<void>();
    let view = res;
    const reply = this.#hold.hold().run((given) => {
      view = given;
      return handled.promise;
    }, this.#report);
    this.#held = { view, reply, handled };
    this.#answer.resolve(reply);
    // Who waits for them is told; where nobody does, nobody has to be.
    for (const each of [reply, handled.promise, this.#answer.promise]) each.catch(() => {});
    this.#giveAgain?.();
    return view;
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
