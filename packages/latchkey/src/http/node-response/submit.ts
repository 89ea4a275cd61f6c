/** The exchange over a held Node response, for every adapter whose handlers answer through one. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Execution } from "../../engine/classify.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Reply } from "../protocol/capture.ts";
import { beforeHandler, CannotRunAgain, type Submit } from "../protocol/exchange.ts";
import type { Incoming } from "../protocol/incoming.ts";
import type { Answered, Outcome } from "../protocol/outcome.ts";
import { type BufferedResponse, type HoldOptions, holdResponse } from "./buffered-response.ts";
import { isReadAgain, sendHandlerReply, sendLatchkeyReply } from "./node-messages.ts";
import { requireHoldable } from "./overlay.ts";

export interface HeldPlace<Res> extends HoldOptions {
  readonly res: Res;
  /** Whether `sendOutcome` follows: then an answer's headers stay where they are. Default false. */
  readonly sends?: boolean;
}

/**
 * Submits a request whose handler answers through `res`. The response is held from the first run on, and free again
 * when this settles.
 *
 * @param handle runs the handler; its `view` of the response goes nowhere once the run is over
 * @throws {TypeError} when the response is held for another operation, or cannot be held
 */
export async function submitHeld<R, Tx, E extends Execution, Res extends ServerResponse>(
  submit: Submit<R, Tx, E>,
  request: R,
  incoming: Incoming,
  place: HeldPlace<Res>,
  handle: (view: Res, context: HandlerContext<Tx, E>, report: (error: unknown) => void) => unknown,
): Promise<Outcome> {
  const { res } = place;
  requireHoldable(res);
  // Most requests are answered without running a handler, and need no held response.
  let held: BufferedResponse<Res> | null = null;
  let sent: Reply | undefined;
  let isAnswered = false;
  try {
    const outcome = await submit(request, incoming, (context, report) => {
      if (held === null) held = beforeHandler(() => holdResponse(res, place));
      else requireUnread(res.req);
      return held.run((view) => handle(view, context, report), report);
    });
    isAnswered = outcome.kind === "handler";
    if (place.sends === true && outcome.kind === "handler") sent = outcome.reply;
    return outcome;
  } finally {
    (held as BufferedResponse<Res> | null)?.release(sent, isAnswered);
  }
}

/**
 * A stream is read once: what a run has read of the request is not there for the next one.
 *
 * @throws {CannotRunAgain} when an earlier run has read it.
 */
export function requireUnread(req: IncomingMessage | undefined): void {
  if (!isReadAgain(req)) return;
  const message =
    "The transaction would have to run again, and the handler has read the request's stream. Read the body that the adapter gives instead.";
  throw new CannotRunAgain("rolled_back", { message });
}

/** Sends what a submission ended with. */
export function sendOutcome(res: ServerResponse, outcome: Answered): void {
  // Middleware has answered meanwhile, with a time-out for instance.
  if (res.headersSent) return;
  if (outcome.kind === "handler") sendHandlerReply(res, outcome.reply);
  else sendLatchkeyReply(res, outcome.reply);
}
