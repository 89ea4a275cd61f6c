/** Why a request was not sent, or not answered. */
export type ClientErrorCode =
  /** Every attempt ended without an answer. The outcome is not known: send the same intent again. */
  | "no-answer"
  /** The intent is open and began with another request. `resume` it first, or `forget` it. */
  | "request-changed"
  /** The intent is completed. Another request, or the same one after its answer has expired, needs a new name. */
  | "intent-done"
  /** The intent is open and older than the servers' key lifetime: sending it again could make it take effect twice. */
  | "intent-too-old"
  /** `resume` names an intent that is not stored. */
  | "intent-unknown"
  /** `resume` names an intent whose request was not stored (`keepRequest: false`). */
  | "request-not-kept"
  /** The storage failed before anything was sent, so the key would not have survived a reload. */
  | "storage-failed";

/** Thrown instead of returning an answer. An invalid call (unknown options, a malformed URL) is a `TypeError`. */
export class LatchkeyClientError extends Error {
  override readonly name = "LatchkeyClientError";
  readonly code: ClientErrorCode;
  /** Null: the call had no intent name. */
  readonly intent: string | null;
  /** The key that was or would have been sent. Null if none had been chosen. */
  readonly key: string | null;

  constructor(
    code: ClientErrorCode,
    about: { readonly intent: string | null; readonly key?: string | null; readonly cause?: unknown },
  ) {
    // Messages contain only the code: a sentence for each would add a tenth to the size that pages load.
    super(`${code}, intent ${about.intent}, key ${about.key}`, about);
    this.code = code;
    this.intent = about.intent;
    this.key = about.key ?? null;
  }
}
