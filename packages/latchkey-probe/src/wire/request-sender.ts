/**
 * Sends the requests of the checks, within the operator's limits: only to given addresses, with a maximum of requests in
 * total and per second.
 */
import type { Timing } from "../ports.ts";
import { type Answer, NoAnswer } from "./answer.ts";
import { type CutAt, sendAndCut, sendRequest, type WireRequest } from "./send.ts";

export interface RequestSenderOptions {
  readonly timing: Timing;
  /** `http://host:port`, as `URL.origin` writes it. */
  readonly allowedOrigins: ReadonlySet<string>;
  readonly requestsMax: number;
  readonly requestsPerSecond: number;
  readonly timeoutMs: number;
  readonly answerLimitBytes: number;
}

/** The checks need more requests than the operator allowed. */
export class RequestLimitReached extends Error {
  override readonly name = "RequestLimitReached";
}

export interface RequestSender {
  /** @throws {NoAnswer} */
  send(request: WireRequest): Promise<Answer>;
  /** Sends all requests simultaneously, on connections that were opened before. */
  together(requests: readonly WireRequest[]): Promise<readonly (Answer | NoAnswer)[]>;
  /** @throws {NoAnswer} */
  cut(request: WireRequest, cutAt: CutAt): Promise<Answer | null>;
  /** How many requests have been sent. */
  sent(): number;
}

export function createRequestSender(options: RequestSenderOptions): RequestSender {
  const { timing, requestsMax, requestsPerSecond } = options;
  let sent = 0;
  let freeAt = 0;

  /**
   * Waits for its turn. Requests that are sent together are one turn, and the pause after it is as long as for all of them.
   */
  async function admit(requests: readonly WireRequest[]): Promise<void> {
    for (const { url } of requests) {
      if (!options.allowedOrigins.has(url.origin))
        throw new TypeError(`${url.origin} is not a given address`);
    }
    if (sent + requests.length > requestsMax) {
      throw new RequestLimitReached(`the limit of ${requestsMax} requests is reached`);
    }
    sent += requests.length;
    const pauseMs = Math.max(0, freeAt - timing.now());
    freeAt = timing.now() + pauseMs + (requests.length * 1_000) / requestsPerSecond;
    if (pauseMs > 0) await timing.wait(pauseMs);
  }

  return {
    sent: () => sent,
    async send(request) {
      await admit([request]);
      return sendRequest(request, options);
    },
    async cut(request, cutAt) {
      await admit([request]);
      return sendAndCut(request, cutAt, options);
    },
    async together(requests) {
      await admit(requests);
      const opening = Promise.withResolvers<void>();
      const deliveries = requests.map((request) => {
        const ready = Promise.withResolvers<void>();
        const delivery = sendRequest(request, {
          ...options,
          release: opening.promise,
          onReady: ready.resolve,
        }).catch(asOutcome);
        return { ready: Promise.race([ready.promise, delivery]), delivery };
      });
      await Promise.all(deliveries.map(({ ready }) => ready));
      opening.resolve();
      return Promise.all(deliveries.map(({ delivery }) => delivery));
    },
  };
}

function asOutcome(error: unknown): NoAnswer {
  if (error instanceof NoAnswer) return error;
  throw error;
}
