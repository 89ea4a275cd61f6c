/**
 * Holds a Node response: until it is released, whatever is written to it is captured and nothing reaches the socket.
 *
 * To the handler the response looks as usual, with one difference: it has no socket. It always takes bytes, it finishes
 * as soon as it is ended, and a client that hangs up does not close it. So a piped source is read to its end, and
 * `await pipeline(source, res)` does not wait for bytes that cannot leave yet.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { LatchkeyError } from "../errors.ts";
import type { Reply } from "./capture.ts";
import { HeldAnswer } from "./held-answer.ts";
import { overlayKey, runOver } from "./held-prototype.ts";
import { type Head, readHead, restoreHead, restoreStatus } from "./response-head.ts";
import { answeringMethods, keepCovered, layOverlay } from "./response-overlay.ts";

export interface HeldResponse<Res> {
  /**
   * Runs a handler on a clean response and captures its answer: when what it returns has settled and the answer has
   * ended. An earlier run's answer no longer counts. A second answer throws where it is given; the first one wins, and
   * `report` is told.
   *
   * @throws {LatchkeyError} `answer-too-large`, `answer-missing`; and whatever the handler throws.
   */
  run(handle: (res: Res) => unknown, report: (error: unknown) => void): Promise<Reply>;
  /**
   * Gives the response back as it was before; its headers are left as they are where they are those of this answer, which
   * is about to be sent. What runs write from now on goes nowhere.
   *
   * `isAnswered`: an answer of a run goes out next, whoever sends it, and no other part of an app is asked for one. Default:
   * whether `sent` is given.
   */
  release(sent?: Reply, isAnswered?: boolean): void;
}

export interface HoldOptions {
  readonly limitBytes: number;
  /** Whether `req.res` of Express, too, is a run's view: only where handlers are given views. Default false. */
  readonly lends?: boolean;
  /** What the response is given back with. Default: what it has now. */
  readonly before?: Head;
}

export function holdResponse<Res extends ServerResponse>(
  res: Res,
  { limitBytes, lends = false, before = readHead(res) }: HoldOptions,
): HeldResponse<Res> {
  let current: HeldAnswer | null = new HeldAnswer(limitBytes);
  let hasRun = false;
  const overlay = layOverlay(res, current);
  const helpers = new Helpers(res);
  return {
    async run(handle, report) {
      // The first run finds the response as it was.
      const answer = hasRun || current === null ? new HeldAnswer(limitBytes) : current;
      if (hasRun) {
        current = answer;
        helpers.takeBack();
        overlay.begin(answer);
        restoreHead(res, before);
      }
      hasRun = true;
      const bytesBefore = bytesOn(overlay.socket());
      try {
        const view = new Proxy(res, new LiveView<Res>(() => current === answer, helpers));
        if (lends) overlay.lend(view);
        await handle(view);
      } catch (error) {
        if (error !== answer.second) throw error;
        report(error);
      }
      const reply = await answer.reply();
      const bytesNow = bytesOn(overlay.socket()) ?? bytesBefore;
      if (overlay.hasBegun() || (bytesBefore !== null && bytesNow !== bytesBefore)) {
        throw wroteToSocket();
      }
      return reply;
    },
    release(sent, isAnswered = sent !== undefined) {
      const last = current;
      current = null;
      if (sent === undefined) helpers.takeBack();
      else helpers.unwrap();
      overlay.remove(isAnswered);
      if (sent !== undefined && last?.isBody(sent.body)) restoreStatus(res, before);
      else restoreHead(res, before);
    },
  };
}

export function wroteToSocket(): LatchkeyError {
  const message = "The handler wrote to the socket, past the response that is held for it";
  return new LatchkeyError("answer-twice", { message });
}

/**
 * How much was written to the connection so far; null where that cannot be told: a pipelined response has no connection
 * until its turn comes, and an encrypted one may write on its own account.
 */
export function bytesOn(socket: Socket | null): number | null {
  return socket === null || socket.destroyed || "encrypted" in socket ? null : socket.bytesWritten;
}

/** A response as a handler sees it whose run is over. */
export function deadView<Res extends ServerResponse>(res: Res): Res {
  return new Proxy(res, new LiveView<Res>(() => false, new Helpers(res)));
}

/** The response as one run's handler sees it. Once the run is over, it answers nobody any more. */
class LiveView<Res extends ServerResponse> implements ProxyHandler<Res> {
  readonly #isLive: () => boolean;
  readonly #helpers: Helpers<Res>;

  constructor(isLive: () => boolean, helpers: Helpers<Res>) {
    this.#isLive = isLive;
    this.#helpers = helpers;
  }

  get(target: Res, name: PropertyKey, view: unknown): unknown {
    if (!this.#isLive()) {
      if (answeringMethods.has(name)) return () => view;
      if (name === overlayKey) return runOver;
    }
    return Reflect.get(target, name);
  }

  set(target: Res, name: PropertyKey, value: unknown): boolean {
    if (!this.#isLive()) return true;
    if (typeof value === "function") this.#helpers.replace(name);
    return Reflect.set(target, name, value);
  }

  /** A mounted Express app gives responses its own. */
  setPrototypeOf(target: Res, prototype: object | null): boolean {
    if (!this.#isLive()) return true;
    const set = Reflect.setPrototypeOf(target, prototype);
    keepCovered(target);
    return set;
  }
}

/**
 * The functions that runs set on a response: helpers that they wrap (`res.json` of Express) or add. They lead to the view of
 * their run, where they would answer nobody later on.
 */
class Helpers<Res extends ServerResponse> {
  readonly #res: Res;
  #replaced: Map<PropertyKey, Replaced> | null = null;

  constructor(res: Res) {
    this.#res = res;
  }

  replace(name: PropertyKey): void {
    // The overlay sees to those that it covers.
    if (answeringMethods.has(name) || this.#replaced?.has(name)) return;
    this.#replaced ??= new Map();
    const own = Object.getOwnPropertyDescriptor(this.#res, name);
    this.#replaced.set(name, { own, isAdded: !(name in this.#res) });
  }

  /** After a run that has failed. */
  takeBack(): void {
    for (const [name, { own }] of this.#replaced ?? []) this.#put(name, own);
    this.#replaced = null;
  }

  /** After the run whose answer is sent: what it has added may be for middleware that looks when the response is finished. */
  unwrap(): void {
    for (const [name, { own, isAdded }] of this.#replaced ?? []) if (!isAdded) this.#put(name, own);
  }

  #put(name: PropertyKey, own: PropertyDescriptor | undefined): void {
    if (own === undefined) Reflect.deleteProperty(this.#res, name);
    else Object.defineProperty(this.#res, name, own);
  }
}

interface Replaced {
  readonly own: PropertyDescriptor | undefined;
  readonly isAdded: boolean;
}
