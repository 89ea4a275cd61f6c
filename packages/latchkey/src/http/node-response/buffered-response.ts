/**
 * Holds a Node response: until it is released, whatever is written to it is captured and nothing reaches the socket.
 *
 * To the handler the response looks as usual, with one difference: it has no socket. It always takes bytes, it finishes
 * as soon as it is ended, and a client that hangs up does not close it. So a piped source is read to its end, and
 * `await pipeline(source, res)` does not wait for bytes that cannot leave yet.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { LatchkeyError } from "../../errors.ts";
import { insideAttempt } from "../../execution/nesting.ts";
import { Bystander, detachedFrom, redirect } from "../protocol/bystander.ts";
import type { Reply } from "../protocol/capture.ts";
import { beforeHandler } from "../protocol/exchange.ts";
import { HeldAnswer } from "./buffered-answer.ts";
import { overlayKey, runOver } from "./buffered-prototype.ts";
import { type Head, isStandIn, readHead, restoreHead, restoreStatus } from "./head.ts";
import { answeringMethods } from "./held-methods.ts";
import { keepCovered, layOverlay } from "./overlay.ts";

export interface BufferedResponse<Res> {
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
   * `isAnswered`: an answer of a run goes out next, whichever code sends it, and no other part of an app is asked for one. Default:
   * whether `sent` is given.
   */
  release(sent?: Reply, isAnswered?: boolean): void;
  /** Notes a status that the handler has set past its view. */
  noteStatus(name: "statusCode" | "statusMessage", value: unknown): void;
  /**
   * Leaves the response to the code that answers on it; runs go on with another one. Only where it `yields`.
   *
   * @param head what that one begins with. Default: what the handler has given this one
   */
  leave(head?: Head): void;
}

export interface HoldOptions {
  readonly limitBytes: number;
  /** Whether `req.res` of Express, too, is a run's view: only where handlers are given views. Default false. */
  readonly lends?: boolean;
  /**
   * Whether an error that other code than the handler answers goes to the client, as a time-out's should: only where
   * handlers are given views. Default false.
   */
  readonly yields?: boolean;
  /** Whether what is done to the response now is the handler's, not that of other code. Default: inside an attempt. */
  readonly isHandlers?: () => boolean;
  /** Called with the response that runs go on with, when this one is left. */
  readonly onLeave?: (detached: ServerResponse) => void;
  /** What the response is given back with. Default: what it has now. */
  readonly before?: Head;
}

export function holdResponse<Res extends ServerResponse>(
  res: Res,
  options: HoldOptions,
): BufferedResponse<Res> {
  const { limitBytes, lends = false, yields = false, onLeave = nothing, before = readHead(res) } = options;
  const { isHandlers = insideAttempt } = options;
  const first = new HeldAnswer(limitBytes);
  let current: HeldAnswer | null = first;
  let hasRun = false;
  const helpers = new Helpers(res);
  const bystander = yields ? new Bystander(res, before, isHandlers, () => leave()) : null;
  let overlay = layOverlay(res, first, bystander);
  const uncoverSend = isStandIn(res) ? coverSend(res) : nothing;
  let comeBack = nothing;
  let hasLeft = false;
  /** The handler goes on with a response of its own. */
  const leave = (given?: Head) => {
    if (hasLeft) return;
    hasLeft = true;
    const own = [...helpers.takeBack()];
    uncoverSend();
    overlay.remove(false);
    const { req } = res;
    const head = given ?? (overlayBegan || bystander === null ? emptyHead : bystander.takeHead());
    const detached = detachedFrom(res, req, head);
    for (const [name, value] of own) Reflect.set(detached, name, value);
    helpers.res = detached;
    comeBack = redirect(res, detached, isHandlers);
    overlay = layOverlay(detached, current ?? first);
    onLeave(detached);
  };
  // Middleware has answered before the handler began.
  const overlayBegan = yields && overlay.hasBegun();
  if (overlayBegan) leave();
  return {
    async run(handle, report) {
      // The first run finds the response as it was.
      const answer = hasRun || current === null ? new HeldAnswer(limitBytes) : current;
      if (hasRun) {
        beforeHandler(() => {
          current = answer;
          helpers.takeBack();
          overlay.begin(answer);
          bystander?.startRun();
          restoreHead(helpers.res, before);
        });
      }
      hasRun = true;
      const bytesBefore = bytesOn(overlay.socket());
      try {
        const view = new Proxy(res, new RunView<Res>(() => current === answer, helpers, bystander));
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
      uncoverSend();
      overlay.remove(isAnswered);
      comeBack();
      // It is another's, whose answer may still be on its way.
      if (hasLeft) return;
      if (sent !== undefined && last?.isBody(sent.body)) restoreStatus(res, before);
      else restoreHead(res, before);
    },
    noteStatus: (name, value) => bystander?.noteStatus(name, value),
    leave,
  };
}

function nothing(): void {}

export const emptyHead: Head = { statusCode: 200, statusMessage: "", sendDate: true, headers: [] };

/** What tests use in a response's place may keep the body that `send` is given to itself, past `write` and `end`. */
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
  const message = "The handler wrote to the socket, past the response that is held for it";
  return new LatchkeyError("answer-twice", { message });
}

/**
 * How much was written to the connection so far; null where that is not known: a pipelined response has no connection
 * until its turn comes, an encrypted one may write on its own account, and a stand-in for one does not count.
 */
export function bytesOn(socket: Socket | null): number | null {
  if (socket === null || socket.destroyed || "encrypted" in socket) return null;
  const { bytesWritten }: { readonly bytesWritten?: number } = socket;
  return bytesWritten ?? null;
}

/** A response as a handler sees it whose run is over. */
export function revokedView<Res extends ServerResponse>(res: Res): Res {
  return new Proxy(res, new RunView<Res>(() => false, new Helpers(res), null));
}

/** The response as one run's handler sees it. Once the run is over, it answers no request any more. */
class RunView<Res extends ServerResponse> implements ProxyHandler<Res> {
  readonly #isLive: () => boolean;
  readonly #helpers: Helpers<Res>;
  readonly #bystander: Bystander | null;

  constructor(isLive: () => boolean, helpers: Helpers<Res>, bystander: Bystander | null) {
    this.#isLive = isLive;
    this.#helpers = helpers;
    this.#bystander = bystander;
  }

  get(_target: Res, name: PropertyKey, view: unknown): unknown {
    if (!this.#isLive()) {
      if (answeringMethods.has(name)) return () => view;
      if (name === overlayKey) return runOver;
    }
    return Reflect.get(this.#helpers.res, name);
  }

  set(_target: Res, name: PropertyKey, value: unknown): boolean {
    if (!this.#isLive()) return true;
    if (typeof value === "function") this.#helpers.replace(name);
    this.#bystander?.noteStatus(name, value);
    return Reflect.set(this.#helpers.res, name, value);
  }

  /** A mounted Express app gives responses its own. */
  setPrototypeOf(_target: Res, prototype: object | null): boolean {
    if (!this.#isLive()) return true;
    const target = this.#helpers.res;
    const set = Reflect.setPrototypeOf(target, prototype);
    keepCovered(target);
    return set;
  }
}

/**
 * The functions that runs set on a response: helpers that they wrap (`res.json` of Express) or add. They lead to the view of
 * their run, where they would answer no request later on.
 */
class Helpers<Res extends ServerResponse> {
  /** What runs see through their views. */
  res: Res;
  #replaced: Map<PropertyKey, Replaced> | null = null;

  constructor(res: Res) {
    this.res = res;
  }

  replace(name: PropertyKey): void {
    // The overlay sees to those that it covers.
    if (answeringMethods.has(name) || this.#replaced?.has(name)) return;
    this.#replaced ??= new Map();
    const own = Object.getOwnPropertyDescriptor(this.res, name);
    this.#replaced.set(name, { own, isAdded: !(name in this.res) });
  }

  /**
   * After a run that has failed.
   *
   * @returns what runs had set
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

  /** After the run whose answer is sent: what it has added may be for middleware that looks when the response is finished. */
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
