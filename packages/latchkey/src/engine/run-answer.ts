/** An answer as your code gives it: from `run`, a settlement, or the end of a delivery. */

/** The answer that `run` returns. */
export interface RunAnswer {
  /** Default 200. */
  readonly status?: number;
  /** A list is sent as one line per value. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** JSON; bytes as they are, for which a `content-type` is needed. Absent: no body. */
  readonly body?: unknown;
}
