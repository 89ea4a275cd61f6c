/**
 * What HTTP adapters capture of an answer, and what they do not. The tables of docs/adapters are generated from this and from
 * the registry of frameworks; `test/docs/captured.test.ts` serves every row and compares, and fails for rows that are missing
 * here.
 */
import type { ObservedRow, Seen } from "../../test/registry/captured.ts";

interface ProvenRow {
  /** What the handler does, as "The handler …". */
  readonly does: string;
  readonly seen: Seen;
  /** Cases of the HTTP conformance suite, which every adapter passes. */
  readonly cases: readonly string[];
}

/** The same for every adapter. */
export const provenRows: readonly ProvenRow[] = [
  {
    does: "answers with any status and bytes, with an empty body, 204 or a redirect",
    seen: ["all of it", "the same"],
    cases: [
      "answers: all byte values, then the same again",
      "answers: nothing, then the same again",
      "answers: 204, then the same again",
      "answers: a redirect, then the same again",
    ],
  },
  {
    does: "answers with a stream",
    seen: ["all of it, once it has ended and the commit is confirmed", "the same, in one piece"],
    cases: [
      "answers: a stream, then the same again",
      "answers: no byte is sent before the store has confirmed",
    ],
  },
  {
    does: "sets `Location`, `ETag`, `Link` (several lines) another header of [the list](README.md#the-headers-that-a-replay-has), or one of `storedHeaders`",
    seen: ["arrives", "the same"],
    cases: ["answers: the first caller gets every header, the second only those that belong to the answer"],
  },
  {
    does: "sets `Set-Cookie`, `Access-Control-*`, `X-Request-Id` or any other header",
    seen: ["arrives", "left out"],
    cases: ["answers: the first caller gets every header, the second only those that belong to the answer"],
  },
  {
    does: "compresses its answer itself (`Content-Encoding`)",
    seen: ["arrives", "the same, compressed for every client"],
    cases: ["answers: a compressed body is replayed compressed"],
  },
  {
    does: "answers HEAD",
    seen: ["headers, no body", "the same"],
    cases: ["answers: HEAD gets the headers and no body, both times"],
  },
  {
    does: "answers with more than `answerLimitBytes`",
    seen: ["all of it", "status and headers, no body, `Idempotency-Status: answer-not-stored`"],
    cases: ["answers: one too large to store leaves a tombstone that says so, and never runs again"],
  },
  {
    does: "answers with more than `answerHoldBytes`",
    seen: ["the app's error response", "the handler again; under a lease `outcome-unknown`"],
    cases: ["failures: an answer over the hard limit fails the attempt"],
  },
  {
    does: "is running when the client disconnects",
    seen: ["nothing: the connection is gone", "the answer"],
    cases: ["answers: if the client disconnects, the handler finishes and the retry gets its answer"],
  },
  {
    does: "throws, under `transaction`",
    seen: [
      "the app's error response, without what the run had set",
      "the handler again; the writes are undone",
    ],
    cases: [
      "failures: a throw rolls back, the framework answers it, and the key runs again",
      "failures: headers and status that a failed run set are gone, for the next run and for the error's answer",
    ],
  },
  {
    does: "throws, under `lease`",
    seen: ["the app's error response", "`outcome-unknown`; the handler again after `NotExecuted`"],
    cases: [
      "refusals: an unknown outcome is not retryable, and says that a new key is not safe",
      "failures: a lease is released if its handler proves that nothing happened",
    ],
  },
  {
    does: "answers 4xx",
    seen: ["the answer", "the same, the writes are kept; the handler again after `attempt.release()`"],
    cases: ["failures: a refusal is stored with its writes, unless the handler declines to"],
  },
  {
    does: "answers 408, 425 or 429",
    seen: ["the answer", "the handler again"],
    cases: [
      "failures: 408 is temporary and is released",
      "failures: 425 is temporary and is released",
      "failures: 429 is temporary and is released",
    ],
  },
  {
    does: "answers 5xx (policy `ietf`)",
    seen: ["the answer", "the handler again, the writes are undone; under a lease `outcome-unknown`"],
    cases: [
      "failures: a 5xx rolls back and is released",
      "failures: a 5xx under a lease leaves an unknown outcome",
    ],
  },
  {
    does: "never answers",
    seen: [
      "the app's error response, at the limit; under a lease `outcome-unknown`",
      "the handler again; under a lease `outcome-unknown`",
    ],
    cases: ["failures: a handler that never answers is stopped at its time limit"],
  },
];

/** What the handler does, where frameworks differ. */
export const observedRows: Readonly<Record<ObservedRow, string>> = {
  phrase: "chooses a reason phrase (`201 Made`)",
  trailers: "sends trailers",
  hints: "sends an informational response (103 Early Hints)",
  before: "runs behind middleware that sets a new header value on each request",
  twice: "answers a second time",
  nothing: "resolves without an answer",
  endless: "begins an answer that never ends (server-sent events)",
  aside: "bypasses its framework",
  socket: "writes to the socket itself",
};
