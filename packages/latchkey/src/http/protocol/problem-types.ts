import type { ProblemCode } from "../../operations/policies/policy.ts";

/** One kind of answer that Latchkey gives instead of the handler. */
export interface ProblemType {
  /** The default; a policy's `statuses` can override it. */
  readonly status: number;
  /** The same for every occurrence. */
  readonly title: string;
  /** Whether the same request with the same key may be sent again. */
  readonly retryable: boolean;
  /** Whether a new key is certain not to cause a second effect. */
  readonly safeNewKey: boolean;
  /** What happened and what to do; an occurrence may have a more exact text. */
  readonly detail: string;
}

/** Every problem that Latchkey answers with; `docs/errors.md` is generated from this table. */
export const problemTypes = {
  "missing-key": {
    status: 400,
    title: "Idempotency-Key is missing",
    retryable: false,
    safeNewKey: true,
    detail: "This operation needs an idempotency key. Send one that is new for every new request.",
  },
  "invalid-key": {
    status: 400,
    title: "Idempotency-Key is malformed",
    retryable: false,
    safeNewKey: true,
    detail: "The idempotency key is not in a form that this API accepts. Nothing was executed.",
  },
  "key-misuse": {
    status: 422,
    title: "Idempotency-Key is already used",
    retryable: false,
    safeNewKey: false,
    detail:
      "This idempotency key was first used with another request, which may have taken effect. If this is a retry of that " +
      "request, find out what became of it before you use a new key. Use a new key only for a new request.",
  },
  "in-progress": {
    status: 409,
    title: "A request is outstanding for this Idempotency-Key",
    retryable: true,
    safeNewKey: false,
    detail:
      "The first request with this idempotency key is still running. Send the same request again later.",
  },
  "outcome-unknown": {
    status: 409,
    title: "The outcome of the first request is unknown",
    retryable: false,
    safeNewKey: false,
    detail:
      "The first request with this idempotency key may or may not have taken effect, and the service does not know " +
      "which yet. A new key could make the effect happen twice.",
  },
  "commit-in-doubt": {
    status: 503,
    title: "The outcome of this request could not be confirmed",
    retryable: true,
    safeNewKey: false,
    detail:
      "This request was executed, but the service could not confirm in time that it took effect. Send the same request " +
      "again with the same key. You get the first answer or a first execution, or, if it is not known yet whether the " +
      "request took effect, `outcome-unknown`.",
  },
  timeout: {
    status: 408,
    title: "The request was not started in time",
    retryable: false,
    safeNewKey: true,
    detail: "The request was accepted but never started, and will not be. Send it with a new key.",
  },
  expired: {
    status: 410,
    title: "The answer for this Idempotency-Key has expired",
    retryable: false,
    safeNewKey: false,
    detail:
      "The request with this idempotency key was completed, and its answer is no longer stored. A new key would make " +
      "it happen again.",
  },
  "answer-not-stored": {
    status: 200,
    title: "The first answer was not stored",
    retryable: false,
    safeNewKey: false,
    detail:
      "The request was completed, but its answer was too large or could not be stored. A retry gets no problem body. It " +
      "gets the stored status and headers, an empty body and the header `Idempotency-Status: answer-not-stored`. The " +
      "status above stands for the stored one.",
  },
  "request-too-old": {
    status: 412,
    title: "The request is too old",
    retryable: false,
    safeNewKey: false,
    detail:
      "The request was first sent longer ago than answers are kept, so it may have taken effect and been forgotten. " +
      "Check what became of it before you send a new one.",
  },
  "invalid-request-date": {
    status: 400,
    title: "The time at which the request was first sent is malformed",
    retryable: false,
    safeNewKey: false,
    detail:
      "The header that says when the request was first sent must be one HTTP date that is not in the future. This attempt " +
      "executed nothing; an earlier one with the same key may have. Send it again with the same key and a valid date.",
  },
  "payload-too-large": {
    status: 413,
    title: "The request's body is too large",
    retryable: false,
    safeNewKey: true,
    detail: "The body is larger than this API accepts with an idempotency key. Nothing was executed.",
  },
  "too-many-keys": {
    status: 429,
    title: "Too many idempotency keys",
    retryable: true,
    safeNewKey: false,
    detail:
      "More idempotency keys were used than allowed in this time. This attempt executed nothing; an earlier one with the " +
      "same key may have. Send the same request again later with the same key.",
  },
  "not-found": {
    status: 404,
    title: "There is no such operation",
    retryable: false,
    safeNewKey: false,
    detail:
      "This caller has no operation with this id, or it is no longer kept. To learn what became of a request, send the " +
      "same request again with its key.",
  },
  "store-unavailable": {
    status: 503,
    title: "The idempotency store is unavailable",
    retryable: true,
    safeNewKey: false,
    detail:
      "The service cannot look up at the moment whether this idempotency key was used before. Send the same request " +
      "again later with the same key.",
  },
} as const satisfies Readonly<Record<ProblemCode, ProblemType>>;
