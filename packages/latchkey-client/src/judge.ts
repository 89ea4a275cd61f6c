/** What an answer means for its intent, and whether the same request may be sent again. Pure. */

/** An answer, independent of the HTTP client. */
export interface Answer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  /** Parsed, if it was JSON. */
  readonly body: unknown;
}

export interface Judgement {
  /**
   * `done`: it has taken effect, and the answer is its result. `refused`: it has not taken effect and will not; another try
   * is a new intent and may have a new key. `pending`: it was accepted, and the answer will be at `Location`. `open`: not
   * known yet, so the key has to be kept.
   */
  readonly outcome: "done" | "refused" | "pending" | "open";
  /** Whether the same request with the same key may be sent again automatically. */
  readonly retryable: boolean;
  /** The wait the server asks for, in milliseconds; null: none. */
  readonly retryAfterMs: number | null;
}

/** Statuses that may be temporary. */
const transient: readonly number[] = [408, 409, 425, 429, 500, 502, 503, 504];
/** Statuses below 500 that say nothing about an earlier attempt: an ended session, a limit, a request in progress. */
const uncertain: readonly number[] = [401, 403, 408, 409, 425, 429];

/**
 * Reads, in this order: the members `retryable` and `safe_new_key` of Latchkey's problems, `Stripe-Should-Retry` and
 * `X-Should-Retry`, `Idempotent-Replayed`, then the status.
 *
 * @param now milliseconds since the Unix epoch, for a `Retry-After` that is a date
 * @param isStatus whether it is the answer of a status resource: its own 4xx says nothing about the request
 */
export function judge(answer: Answer, now: number, isStatus = false): Judgement {
  const { status, headers } = answer;
  const retryAfterMs = retryAfter(headers, now);
  if (status >= 200 && status < 400) {
    const isPending = status === 202 && headers.get("location") !== null;
    return { outcome: isPending ? "pending" : "done", retryable: false, retryAfterMs };
  }
  const { retryable: stated, safe_new_key: safe } = Object(answer.body) as Readonly<Record<string, unknown>>;
  const text = JSON.stringify(answer.body);
  // Servers without Latchkey's members: the first request under the key may have taken effect.
  const isAboutKey = /idempoten/iu.test(text);
  const isMisuse = status === 409 && isAboutKey && !/in.?use|outstanding|progress|running/iu.test(text);
  // A stored answer does not change when it is requested again.
  const isReplay = headers.get("idempotent-replayed") === "true";
  const isFinal =
    status < 500 && status >= 400 && (isReplay || !(isStatus || isAboutKey || uncertain.includes(status)));
  const retryable =
    booleanOf(stated) ?? shouldRetry(headers) ?? (!isReplay && !isMisuse && transient.includes(status));
  const isRefused = booleanOf(safe) ?? isFinal;
  return { outcome: isRefused && !retryable ? "refused" : "open", retryable, retryAfterMs };
}

function shouldRetry(headers: Answer["headers"]): boolean | undefined {
  const shouldRetry = headers.get("stripe-should-retry") ?? headers.get("x-should-retry");
  return shouldRetry === null ? undefined : shouldRetry === "true";
}

/** Whole seconds or an HTTP date. A date is compared with the server's own `Date`, because clients' clocks can be wrong. */
function retryAfter(headers: Answer["headers"], now: number): number | null {
  const value = headers.get("retry-after") ?? "";
  if (/^\d+$/u.test(value)) return Number(value) * 1000;
  // JavaScript engines accept many more date formats than HTTP.
  if (!value.endsWith(" GMT")) return null;
  const delayMs = Date.parse(value) - (Date.parse(headers.get("date") ?? "") || now);
  return Number.isNaN(delayMs) ? null : Math.max(0, delayMs);
}

function booleanOf(value: unknown): boolean | undefined {
  return typeof value === "boolean" ? value : undefined;
}
