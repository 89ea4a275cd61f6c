/** The exchange over a held Node response, for every adapter whose handlers answer through one. */
import type { ServerResponse } from "node:http";
import type { HandlerContext } from "../attempt/attempt.ts";
import type { Execution } from "../engine/classify.ts";
import type { Reply } from "./capture.ts";
import type { Submit } from "./exchange.ts";
import { type HeldResponse, type HoldOptions, holdResponse } from "./held-response.ts";
import type { Incoming } from "./incoming.ts";
import { sendHandlerReply, sendLatchkeyReply } from "./node-messages.ts";
import type { Answered, Outcome } from "./outcome.ts";
import { requireHoldable } from "./response-overlay.ts";

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
  let held: HeldResponse<Res> | null = null;
  let sent: Reply | undefined;
  let isAnswered = false;
  try {
    const outcome = await submit(request, incoming, (context, report) => {
      held ??= holdResponse(res, place);
      return held.run((view) => handle(view, context, report), report);
    });
    isAnswered = outcome.kind === "handler";
    if (place.sends === true && outcome.kind === "handler") sent = outcome.reply;
    return outcome;
  } finally {
    (held as HeldResponse<Res> | null)?.release(sent, isAnswered);
  }
}

/** Sends what a submission ended with. */
export function sendOutcome(res: ServerResponse, outcome: Answered): void {
  if (outcome.kind === "handler") sendHandlerReply(res, outcome.reply);
  else sendLatchkeyReply(res, outcome.reply);
}
