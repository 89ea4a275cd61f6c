/** The words in which a framework's entry says what its adapter captures of an answer. */

/** What the first caller gets, and what the retry with the same key gets. */
export type Seen = readonly [first: string, retry: string];

export type ObservedRow =
  | "phrase"
  | "trailers"
  | "hints"
  | "before"
  | "twice"
  | "nothing"
  | "endless"
  | "aside"
  | "socket";

/**
 * Observed under `transaction`. A code is that of the error which the event `attempt_failed` reports. Null: the framework
 * has no way to do it.
 */
export type Captured = Readonly<Record<ObservedRow, Seen | null>>;

export const arrivesOnce: Seen = ["arrives", "left out"];
export const arrivesTwice: Seen = ["arrives", "the same"];
const dropped: Seen = ["left out", "left out"];
const ofEachRequest: Seen = ["arrives", "the retry's own value"];
const firstWins: Seen = ["the first one, `answer-twice`", "the same"];
const atTheLimit: Seen = ["500, `attempt-limit`", "the handler again"];
const missing: Seen = ["500, `answer-missing`", "the handler again"];
const foundOut: Seen = ["arrives, `answer-twice`", "the handler again"];

/** What answers through Node's own response. */
export const onNode = {
  phrase: arrivesOnce,
  trailers: dropped,
  hints: dropped,
  before: ofEachRequest,
  twice: firstWins,
  nothing: atTheLimit,
  endless: atTheLimit,
  aside: null,
  socket: foundOut,
} as const satisfies Captured;

/** What returns a `Response`. */
export const onFetch = {
  ...onNode,
  phrase: dropped,
  trailers: null,
  hints: null,
  twice: null,
  nothing: missing,
  socket: null,
} as const satisfies Captured;
