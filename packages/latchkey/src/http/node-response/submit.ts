/** Runs the exchange over a buffered Node response, for every adapter whose handlers answer through one. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Execution } from "../../engine/classify.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Reply } from "../protocol/capture.ts";
import { beforeHandler, CannotRunAgain, type SubmitRequest } from "../protocol/exchange.ts";
import type { Incoming } from "../protocol/incoming.ts";
import type { Answered, HttpOutcome } from "../protocol/outcome.ts";
import { type BufferedResponse, type BufferOptions, bufferResponse } from "./buffered-response.ts";
import { isReadAgain, sendHandlerReply, sendLatchkeyReply } from "./node-messages.ts";
import { requireBufferable } from "./response-interceptor.ts";

export interface BufferTarget<Res> extends BufferOptions {
  readonly res: Res;
  /** Whether `sendOutcome` follows, so that an answer's headers stay on the response. Default false. */
  readonly keepsHeaders?: boolean;
}

/**
 * Submits a request whose handler answers through `res`. The response is buffered from the first run until this settles.
 *
 * @param handle runs the handler; after the run its `view` of the response has no effect
 * @throws {TypeError} when the response is buffered for another operation, or cannot be buffered
 */
export async function submitBuffered<R, Tx, E extends Execution, Res extends ServerResponse>(
  submit: SubmitRequest<R, Tx, E>,
  request: R,
  incoming: Incoming,
  target: BufferTarget<Res>,
  handle: (view: Res, context: HandlerContext<Tx, E>, report: (error: unknown) => void) => unknown,
): Promise<HttpOutcome> {
  const { res } = target;
  requireBufferable(res);
  // Most requests are answered without running a handler, and need no buffered response.
  let buffered: BufferedResponse<Res> | null = null;
  let sent: Reply | undefined;
  let isAnswered = false;
  try {
    const outcome = await submit(request, incoming, (context, report) => {
      if (buffered === null) buffered = beforeHandler(() => bufferResponse(res, target));
      else requireUnread(res.req);
      return buffered.run((view) => handle(view, context, report), report);
    });
    isAnswered = outcome.kind === "handler";
    if (target.keepsHeaders === true && outcome.kind === "handler") sent = outcome.reply;
    return outcome;
  } finally {
    (buffered as BufferedResponse<Res> | null)?.release(sent, isAnswered);
  }
}

/**
 * A stream can be read only once, so another run would miss the bytes that an earlier one has read.
 *
 * @throws {CannotRunAgain} when an earlier run has read it.
 */
export function requireUnread(req: IncomingMessage | undefined): void {
  if (!isReadAgain(req)) return;
  const message =
    "The transaction would have to run again, but the handler has read the request's stream. Read the adapter's body instead.";
  throw new CannotRunAgain("rolled_back", { message });
}

/** Sends the outcome of a submission. */
export function sendOutcome(res: ServerResponse, outcome: Answered): void {
  // Middleware has answered meanwhile, for instance with a time-out.
  if (res.headersSent) return;
  if (outcome.kind === "handler") sendHandlerReply(res, outcome.reply);
  else sendLatchkeyReply(res, outcome.reply);
}
