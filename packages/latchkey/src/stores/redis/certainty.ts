/** How certain it is, after a command failed, that nothing happened. */
import { type Certainty, StoreError } from "../../errors.ts";
import { plainText } from "../../plain-text.ts";

/**
 * Replies of a server that did not run the script, or of the script itself (LATE) before any write. None of these occurs in
 * the middle of a script, because Redis makes these checks before its first write.
 */
const refusals = [
  "ASK",
  "BUSY",
  "CLUSTERDOWN",
  "CROSSSLOT",
  "EXECABORT",
  "LATE",
  "LOADING",
  "MASTERDOWN",
  "MISCONF",
  "MOVED",
  "NOAUTH",
  "NOPERM",
  "NOREPLICAS",
  "NOSCRIPT",
  "OOM",
  "READONLY",
  "TRYAGAIN",
  "UNKILLABLE",
  "WRONGPASS",
];

/** Before Redis 7 the error of a command in a script comes after "-", in a sentence that begins with ERR. */
const refusal = new RegExp(`(?:^|: -?|-)(?:${refusals.join("|")})\\b`);

/** Names and messages of errors that the clients throw before they write anything to a socket. */
const unsentNames = new Set(["ClientClosedError", "ClientOfflineError"]);
const unsentMessages = [/^Stream isn't writeable/, /enableOfflineQueue/];
const unsentCodes = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"]);

/** The client's own queue, or its pool of connections, is full. */
const overloadMessages = [/^The queue is full/, /^Timeout waiting for a client/];

export function certaintyOf(error: unknown): Certainty {
  if (!(error instanceof Error)) return "in_doubt";
  if (unsentNames.has(error.constructor.name) || unsentNames.has(error.name)) return "not_sent";
  if (isOverload(error)) return "not_sent";
  if (unsentMessages.some((pattern) => pattern.test(error.message))) return "not_sent";
  if ("code" in error && typeof error.code === "string" && unsentCodes.has(error.code)) return "not_sent";
  return isRefusal(error) ? "rolled_back" : "in_doubt";
}

function isOverload({ message }: Error): boolean {
  return overloadMessages.some((pattern) => pattern.test(message));
}

function isRefusal(error: Error): boolean {
  return refusal.test(error.message);
}

/** Whether the server's reply begins with this word. */
export function isReply(error: unknown, word: string): boolean {
  return error instanceof Error && new RegExp(`(?:^|: -?|-)${word}\\b`).test(error.message);
}

export function storeErrorOf(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const text = error instanceof Error ? error.message : String(error);
  const overload = error instanceof Error && isOverload(error);
  return new StoreError(certaintyOf(error), { message: `Redis: ${plainText(text)}`, cause: error, overload });
}
