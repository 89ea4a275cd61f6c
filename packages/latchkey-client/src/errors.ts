/** Why a request was not sent, or not answered. */
export type ClientErrorCode =
  /** Every attempt ended without an answer. What became of the request is open: send the same intent again. */
  | "no-answer"
  /** The intent is open and was begun with another request. `resume` it first, or `forget` it. */
  | "request-changed"
  /** The intent was completed. Another request, or the same one after its answer is no longer kept, needs a new name. */
  | "intent-done"
  /** The intent is open and older than servers keep keys: sent again, it could take effect twice. */
  | "intent-too-old"
  /** `resume` names an intent of which nothing is stored. */
  | "intent-unknown"
  /** `resume` names an intent whose request was not stored (`keepRequest: false`). */
  | "request-not-kept"
  /** The storage failed before anything was sent, so the key would not have survived a reload. */
  | "storage-failed";

/** Thrown in place of an answer. A bad call (unknown options, a malformed URL) is a `TypeError`. */
export class LatchkeyClientError extends Error {
  override readonly name = "LatchkeyClientError";
  readonly code: ClientErrorCode;
  /** Null: the call named none. */
  readonly intent: string | null;
  /** The key that was or would have been sent. Null where none had been chosen. */
  readonly key: string | null;

  constructor(
    code: ClientErrorCode,
    about: { readonly intent: string | null; readonly key?: string | null; readonly cause?: unknown },
  ) {
    // The codes are words: a sentence for each would be a tenth of what pages load.
    super(`${code}, intent ${about.intent}, key ${about.key}`, about);
    this.code = code;
    this.intent = about.intent;
    this.key = about.key ?? null;
  }
}
