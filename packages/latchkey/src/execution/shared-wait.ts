/**
 * Duplicates of a running request that wait for its answer. Duplicates of the same request in one process share their reads:
 * one of them submits at a time, and the others get what it finds.
 */
import { decide } from "../engine/decide.ts";
import type { Result, Submission } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { type CancelTimer, type Ports, pause } from "../ports.ts";
import { retryPauseMs } from "../time/retry-pause.ts";
import { admissionRequest, resultOf } from "./admission.ts";
import type { Runtime } from "./runtime.ts";

/** One try. It calls `onHandlerStart` when it is about to run the work, and does not read the record after that. */
export type SubmitOnce = (onHandlerStart: () => void) => Promise<Result>;

type InProgress = Extract<Result, { readonly kind: "in_progress" }>;

/** What a waiting submission does next. */
type Turn =
  | { readonly kind: "look" }
  | { readonly kind: "late" }
  /** Decided from a reading for all waiting submissions. */
  | { readonly kind: "decided"; readonly result: Promise<Result> };

const lookPauses = { firstMs: 30, maxMs: 375 };

/** Per latchkey, by request. A different request under the same key is decided separately. */
const waitsOf = new WeakMap<object, Map<string, SharedWait>>();

/**
 * Repeats `submitOnce` while the key is running and the operation's wait has time left. Holds no resources between two tries.
 */
export async function waiting<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  waitMs: number,
  submitOnce: SubmitOnce,
): Promise<Result> {
  const deadline = runtime.ports.clock.monotonicMs() + waitMs;
  const wait = joined(runtime, operation, submission);
  try {
    let turn = await wait.first(deadline);
    for (;;) {
      if (turn.kind === "decided") return await turn.result;
      const result =
        turn.kind === "look"
          ? await wait.look(submitOnce)
          : ((await wait.finalResult()) ?? (await submitOnce(() => {})));
      if (turn.kind === "late" || result.kind !== "in_progress") return result;
      turn = await wait.next(deadline);
    }
  } finally {
    wait.leave();
  }
}

function joined<Tx>(runtime: Runtime<Tx>, operation: Operation, submission: Submission): SharedWait {
  const { key, fingerprint, principal, addressable } = submission;
  const name = JSON.stringify([
    ...[key.tenant, key.scope, key.key, operation.name, principal, addressable === true],
    ...[fingerprint.version, Buffer.from(fingerprint.digest).toString("latin1")],
  ]);
  const waits = waitsOf.get(runtime) ?? new Map<string, SharedWait>();
  waitsOf.set(runtime, waits);
  let wait = waits.get(name);
  if (wait === undefined) {
    const read = async () => {
      const { record, now } = await runtime.store.read(submission.key);
      const verdict = decide(record, admissionRequest(operation, submission, ""), now);
      if (verdict.kind !== "answer") return "free";
      const { decision } = verdict;
      return decision.kind === "in_progress" ? "running" : async () => resultOf(runtime, decision, now);
    };
    wait = new SharedWait(runtime.ports, read, () => waits.delete(name));
    waits.set(name, wait);
  }
  wait.enter();
  return wait;
}

/** What a reading of the record means for each of them. */
type Seen = "free" | "running" | (() => Promise<Result>);

class SharedWait {
  readonly #ports: Ports;
  readonly #read: () => Promise<Seen>;
  readonly #over: () => void;
  /** In order of arrival. A submission in here has no turn yet. */
  readonly #waiting = new Set<(turn: Turn) => void>();
  #inside = 0;
  /** Whether one of them submits, or is about to, and does not run its work yet. */
  #looking = false;
  #looks = 0;
  #cancel: CancelTimer = () => {};
  #reading: Promise<Seen | null> | null = null;
  #last: InProgress | null = null;

  constructor(ports: Ports, read: () => Promise<Seen>, over: () => void) {
    this.#ports = ports;
    this.#read = read;
    this.#over = over;
  }

  enter(): void {
    this.#inside += 1;
  }

  leave(): void {
    this.#inside -= 1;
    if (this.#inside > 0) return;
    this.#cancel();
    this.#over();
  }

  /** A submission that arrives while no look is running or due gets its turn at once. */
  async first(deadline: number): Promise<Turn> {
    if (this.#looking || this.#waiting.size > 0) return this.next(deadline);
    this.#looking = true;
    return { kind: "look" };
  }

  /** Each submission gets its turn in its own context: its `submitOnce` may run its caller's handler. */
  async next(deadline: number): Promise<Turn> {
    const { clock } = this.#ports;
    const { promise, resolve } = Promise.withResolvers<Turn>();
    const woken = new AbortController();
    this.#waiting.add(resolve);
    this.#lookLater();
    void pause(clock, Math.max(0, deadline - clock.monotonicMs()), woken.signal).then(() => {
      if (this.#waiting.delete(resolve)) resolve({ kind: "late" });
    });
    const turn = await promise;
    // With an explicit reason, because the default one costs a stack trace.
    woken.abort("woken");
    return turn;
  }

  /** For the submission whose turn it is. */
  async look(submitOnce: SubmitOnce): Promise<Result> {
    let looks = true;
    const over = () => {
      if (!looks) return;
      looks = false;
      this.#looking = false;
      this.#lookLater();
    };
    try {
      const result = await submitOnce(over);
      if (result.kind === "in_progress") this.#last = result;
      else void this.#decideAll();
      return result;
    } finally {
      over();
    }
  }

  /** For a submission whose time is over. Null: nothing is known yet. */
  async finalResult(): Promise<Result | null> {
    const seen = await this.#readTogether();
    return typeof seen === "function" ? seen() : this.#last;
  }

  /** Gives one of the waiting submissions its turn, after a pause that grows from look to look. */
  #lookLater(): void {
    this.#cancel();
    if (this.#waiting.size === 0 || this.#looking) return;
    const { clock, random } = this.#ports;
    const pauseMs = retryPauseMs(this.#looks + 1, random, lookPauses);
    this.#cancel = clock.startTimer(pauseMs, () => this.#lookNow());
  }

  #lookNow(): void {
    const [first] = this.#waiting;
    if (first === undefined || this.#looking) return;
    this.#looks += 1;
    this.#looking = true;
    this.#waiting.delete(first);
    first({ kind: "look" });
  }

  /** The key no longer runs: one reading decides for all that wait; if the key is free, one of them takes it. */
  async #decideAll(): Promise<void> {
    if (this.#waiting.size === 0) return;
    const seen = await this.#readTogether();
    if (seen === "free") this.#lookNow();
    if (typeof seen !== "function") return;
    for (const wake of this.#waiting) wake({ kind: "decided", result: seen() });
    this.#waiting.clear();
  }

  #readTogether(): Promise<Seen | null> {
    this.#reading ??= this.#read()
      .catch(() => null)
      .finally(() => {
        this.#reading = null;
      });
    return this.#reading;
  }
}
