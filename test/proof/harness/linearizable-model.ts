/** A history of one key, and what is known of it before the search begins. */

/** What was asked of the key. */
export type Asked =
  /** A request. `fingerprint`: all that makes it the same request (body, principal, operation), as one text. */
  | { readonly kind: "submit"; readonly fingerprint: string }
  /** Somebody decided about an unknown: with this answer, or that it may run again. Repetitions of one decision are one. */
  | { readonly kind: "settle"; readonly to: { readonly answer: string } | "retryable" }
  /** Time: the answer goes, and later the key. Under `reuse: "execute"` expiring is forgetting. */
  | { readonly kind: "expire" | "forget" };

/** What came back. Equal `answer`s are equal bytes: status, stored headers in order, body. */
export type Answered =
  /** This request's own run gave the answer, and it is stored. */
  | { readonly kind: "executed"; readonly answer: string }
  | { readonly kind: "replay"; readonly answer: string }
  /** One of the two; for clients that cannot tell. */
  | { readonly kind: "answered"; readonly answer: string }
  /** Taken in; a worker runs it. */
  | { readonly kind: "accepted" }
  | { readonly kind: "in_progress" }
  | { readonly kind: "misuse" }
  | { readonly kind: "unknown" }
  | { readonly kind: "expired" }
  /** Nothing came of it, and nothing will: refused before it ran, or undone for certain. */
  | { readonly kind: "retryable" }
  /** A reply that leaves open what happened, or will (`commit-in-doubt`, a time-out, a cut connection). */
  | { readonly kind: "doubt" }
  /** For `settle`, `expire` and `forget`: it took effect; or it found the key in another state. */
  | { readonly kind: "done" }
  | { readonly kind: "refused" };

export interface Operation {
  /** For messages. One that gets no answer never asks again: give its successor another name. */
  readonly process: string;
  readonly asked: Asked;
  /** Numbers of one observer's sequence: each is used once in a history. */
  readonly invokedAt: number;
  /** Null: never. */
  readonly returnedAt: number | null;
  /** Null exactly when it never returned. */
  readonly answered: Answered | null;
}

/** What the key is between two operations. */
export type KeyState =
  | { readonly kind: "free" }
  | { readonly kind: "retryable"; readonly fingerprint: string }
  | { readonly kind: "accepted"; readonly fingerprint: string }
  | { readonly kind: "expired"; readonly fingerprint: string }
  | {
      readonly kind: "unknown";
      readonly fingerprint: string;
      /**
       * Who may still settle it late: a request that was there when it became so, at this event; or one that is never
       * answered, or a worker.
       */
      readonly owner: number | "lost";
    }
  /** `answer` null: nobody has seen it yet. */
  | { readonly kind: "completed"; readonly fingerprint: string; readonly answer: string | null };

/** The key after some of the open operations, and which these are. */
export interface Configuration {
  readonly state: KeyState;
  /** Open operations whose answers were true at some moment. */
  readonly read: bigint;
  /** Open operations that have changed the key. */
  readonly written: bigint;
  /** By fingerprint, how many of the requests that are never answered have not ended. */
  readonly left: ReadonlyMap<string, number>;
}

/** An operation that has begun and has not been answered. */
export interface Open {
  readonly operation: Operation;
  /** Null unless it is a request. */
  readonly fingerprint: string | null;
  /** Null also of one that is never answered. */
  readonly answered: Answered | null;
  /** Its place in `read` and `written`; places are used again. */
  readonly bit: bigint;
  /** Number of the event with which it began. */
  readonly at: number;
  /** Whether it can be the one that runs. */
  mayRun: boolean;
}

export interface Event {
  readonly at: number;
  readonly open: Open;
  readonly returns: boolean;
}

export interface Known {
  /** Whether workers that are not in the history take part. */
  readonly workers: boolean;
  /** Whether an unknown can be settled at all, other than by its owner. */
  readonly settles: boolean;
}

/** Never answered, or with a doubt: it may happen at any time since. */
export function isLost({ answered }: Operation): boolean {
  return answered === null || answered.kind === "doubt";
}

/** Calls and returns in the observer's order. */
export function eventsOf(history: readonly Operation[]): readonly Event[] {
  const moments = history.flatMap((operation) => {
    expectSound(operation);
    const call = { moment: operation.invokedAt, operation, returns: false };
    if (operation.returnedAt === null) return [call];
    return [call, { moment: operation.returnedAt, operation, returns: true }];
  });
  moments.sort((left, right) => left.moment - right.moment);
  const busy = new Set<string>();
  const places = new Places();
  const begun = new Map<Operation, Open>();
  const events: Event[] = [];
  for (const [at, { moment, operation, returns }] of moments.entries()) {
    if (moments[at + 1]?.moment === moment) throw new RangeError(`${moment} is used twice`);
    const { process } = operation;
    if (!returns) {
      if (busy.has(process)) throw new RangeError(`${process} asks before it was answered (${moment})`);
      busy.add(process);
      const open = openOf(operation, places.take(), at);
      begun.set(operation, open);
      events.push({ at, open, returns });
      continue;
    }
    busy.delete(process);
    const open = begun.get(operation);
    // A doubt is no answer: the operation stays open for ever.
    if (open === undefined || isLost(operation)) continue;
    places.free(open.bit);
    events.push({ at, open, returns });
  }
  return events;
}

function openOf(operation: Operation, bit: bigint, at: number): Open {
  const fingerprint = operation.asked.kind === "submit" ? operation.asked.fingerprint : null;
  const answered = isLost(operation) ? null : operation.answered;
  return { operation, fingerprint, answered, bit, at, mayRun: false };
}

function expectSound({ process, asked, answered, invokedAt, returnedAt }: Operation): void {
  if ((returnedAt === null) !== (answered === null)) {
    throw new RangeError(`${process}: a return and an answer belong together (${invokedAt})`);
  }
  if (returnedAt !== null && returnedAt <= invokedAt) {
    throw new RangeError(`${process} was answered before it asked (${invokedAt})`);
  }
  const { kind } = answered ?? { kind: "doubt" };
  const isOfSetting = kind === "done" || kind === "refused";
  if (kind !== "doubt" && isOfSetting !== (asked.kind !== "submit")) {
    throw new RangeError(`${process}: ${asked.kind} cannot be answered with ${kind} (${invokedAt})`);
  }
}

/** The lowest bits first, so that numbers stay small. Those of operations that are never answered are not given back. */
class Places {
  readonly #free: bigint[] = [];
  #next = 1n;

  take(): bigint {
    const known = this.#free.pop();
    if (known !== undefined) return known;
    this.#next <<= 1n;
    return this.#next >> 1n;
  }

  free(bit: bigint): void {
    this.#free.push(bit);
  }
}

/** Also says of each operation whether it can be the one that runs. */
export function knownOf(events: readonly Event[], workers: boolean): Known {
  const calls = events.filter(({ returns }) => !returns).map(({ open }) => open);
  const settles = workers || calls.some(({ operation }) => operation.asked.kind === "settle");
  const requests = calls.filter(canRun);
  for (const chain of chainsOf(requests)) {
    const allMisuse = chain.every(({ answered }) => answered?.kind === "misuse");
    for (const open of chain) open.mayRun = !allMisuse;
  }
  const byFingerprint = Map.groupBy(
    requests.filter(({ mayRun }) => mayRun),
    ({ fingerprint }) => fingerprint,
  );
  for (const some of byFingerprint.values()) for (const chain of chainsOf(some)) sayWhoRuns(chain, workers);
  return { workers, settles };
}

function canRun({ fingerprint, answered }: Open): boolean {
  return fingerprint !== null && answered?.kind !== "expired" && answered?.kind !== "accepted";
}

/**
 * One that was answered `in_progress` has run only if another has taken over from it, or begun after it was undone: not
 * when all around it were answered so, too. (As one that was answered `misuse`, where all ask the same.)
 */
function sayWhoRuns(chain: readonly Open[], workers: boolean): void {
  const mayRun = workers || chain.some(({ answered }) => answered?.kind !== "in_progress");
  for (const open of chain) open.mayRun = mayRun;
}

/** Requests that were open at the same time, one after the other. They come in the order of their calls. */
function chainsOf(requests: readonly Open[]): readonly (readonly Open[])[] {
  const chains: Open[][] = [];
  let untilMoment = Number.NEGATIVE_INFINITY;
  for (const open of requests) {
    const { invokedAt, returnedAt } = open.operation;
    if (invokedAt > untilMoment) chains.push([]);
    chains.at(-1)?.push(open);
    const end = open.answered === null ? Number.POSITIVE_INFINITY : (returnedAt ?? Number.POSITIVE_INFINITY);
    untilMoment = Math.max(untilMoment, end);
  }
  return chains;
}
