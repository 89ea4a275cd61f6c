/**
 * Work that its operation owns, under a lease: `run` starts from the top on every attempt, and finished steps do not run
 * again.
 */
import { classifyAnswer } from "../../engine/classify.ts";
import { LatchkeyError, StoreError } from "../../errors.ts";
import { type Answer, encodeAnswer } from "../../operations/answer.ts";
import type { LeasedOperation } from "../../operations/owned-operation.ts";
import type { DeferredAttempt } from "../../operations/owned-work.ts";
import type { Step } from "../../stores/journal.ts";
import type { AttemptEnd } from "../../stores/store.ts";
import type { TraceSpan } from "../../telemetry/tracing.ts";
import { workerPauseMs } from "../../time/retry-pause.ts";
import { type Limited, withLimit } from "../../time/time-limit.ts";
import { answerOfRun, failureAnswer } from "../answer-of-run.ts";
import type { AttemptHandle } from "../handle.ts";
import type { HeldLease } from "../lease/held-lease.ts";
import type { Conclusion, LeasedRun, LeasedWork } from "../lease/leased-work.ts";
import type { Runtime } from "../runtime.ts";
import { codecContext, decodeJson } from "../stored-values.ts";
import { PhaseEffects } from "../transaction/enqueue.ts";
import { lose, type OwnedRun, plainJson, reconcileAfter, retryWhileHeld } from "./attempt-context.ts";
import { AwaitedAnswer, awaitsDelivery, checkAwaited } from "./awaited-answer.ts";
import { runCall } from "./calls.ts";
import { runPhase } from "./phases.ts";
import { type Halt, Steps } from "./steps.ts";

export interface OwnedSource {
  /** The request's input as plain JSON bytes; null: a worker uses the stored input. */
  readonly input: Uint8Array | null;
  readonly by: "request" | "worker";
}

/** How long to wait for a step that `run` did not await, or that the attempt's limit has interrupted. */
const stepEndLimitMs = 5_000;
/** The result of an attempt whose answer comes from a delivery. It is not sent to any caller. */
const awaited: Answer = { status: 202, headers: [], body: new Uint8Array(0), omitted: null };

export function stepWork<Tx>(
  runtime: Runtime<Tx>,
  operation: LeasedOperation<Tx>,
  source: OwnedSource,
): LeasedWork {
  return {
    ownsWork: true,
    input: async (context) => (source.input === null ? null : runtime.codec.encode(source.input, context)),
    begin: (held, handle, span) => new OwnedAttempt(runtime, operation, source, held, handle, span),
  };
}

class OwnedAttempt<Tx> implements LeasedRun {
  readonly #runtime: Runtime<Tx>;
  readonly #operation: LeasedOperation<Tx>;
  readonly #source: OwnedSource;
  readonly #held: HeldLease;
  readonly #handle: AttemptHandle;
  readonly #span: TraceSpan | undefined;
  readonly #over = Promise.withResolvers<void>();
  readonly #effects = new PhaseEffects<Tx>();
  /** Null until the journal has been read. */
  #steps: Steps | null = null;

  constructor(
    runtime: Runtime<Tx>,
    operation: LeasedOperation<Tx>,
    source: OwnedSource,
    held: HeldLease,
    handle: AttemptHandle,
    span: TraceSpan | undefined,
  ) {
    this.#runtime = runtime;
    this.#operation = operation;
    this.#source = source;
    this.#held = held;
    this.#handle = handle;
    this.#span = span;
  }

  async work(): Promise<Answer> {
    const { input, stored } = await this.#begun();
    const steps = new Steps(stored);
    this.#steps = steps;
    const { version, run } = this.#operation.work;
    if (stored.some((step) => step.version !== version)) {
      const error = new LatchkeyError("steps-changed", {
        message: `Steps of another version than ${version}`,
      });
      steps.halt({ kind: "doubt", error, errorCode: "version-changed", reconcileAfterMs: null });
    }
    const given = await run(input as never, this.#attempt(steps));
    const answer = given instanceof AwaitedAnswer ? awaited : answerOfRun(given);
    const leftOut = steps.halted === null ? steps.leftOut() : null;
    if (leftOut !== null) steps.change(`run ended without step ${leftOut}`);
    if (given instanceof AwaitedAnswer) await this.#checkAwaited(given);
    return answer;
  }

  async #checkAwaited(given: AwaitedAnswer): Promise<void> {
    const { id } = this.#held.record();
    const checked = await retryWhileHeld(this.#runtime, this.#held, () =>
      checkAwaited(this.#runtime, id, given),
    );
    if (checked.kind === "gave_up") throw checked.error;
  }

  /** The input of the life, and its steps so far. */
  async #begun(): Promise<{ readonly input: unknown; readonly stored: readonly Step[] }> {
    const record = this.#held.record();
    const given = this.#source.input;
    if (record.fence.attempt === 1 && given !== null) return { input: decodeJson(given), stored: [] };
    const read = await retryWhileHeld(this.#runtime, this.#held, () =>
      this.#runtime.store.journal.read(record, record.id),
    );
    if (read.kind === "gave_up") throw read.error;
    const journal = read.value;
    if (journal === null) return lose({ steps: new Steps([]) });
    const { attempt } = record.fence;
    if (attempt > 1) {
      const about = { ...this.#runtime.about(this.#operation.name, record), recordId: record.id };
      const { recoveryPoint } = journal;
      this.#runtime.emit({ ...about, type: "attempt_resumed", attempt, by: this.#source.by, recoveryPoint });
    }
    if (journal.input !== null) {
      return { input: await plainJson(this.#runtime, record, "input", journal.input), stored: journal.steps };
    }
    // The life began before its operation owned its work.
    if (given === null)
      throw new StoreError("rolled_back", { message: "The record has no input to continue with" });
    return { input: decodeJson(given), stored: journal.steps };
  }

  #attempt(steps: Steps): DeferredAttempt<Tx> {
    const { id, key, record, signal, release, retain } = this.#handle.attempt;
    const held = this.#held;
    const run: OwnedRun<Tx> = {
      runtime: this.#runtime,
      operation: this.#operation,
      held,
      handle: this.#handle,
      steps,
      effects: this.#effects,
      span: this.#span,
      over: this.#over.promise,
    };
    return {
      id,
      key,
      get fence() {
        return held.record().fence;
      },
      record,
      signal,
      release,
      retain,
      enqueue: this.#effects.enqueue,
      phase: <R>(name: string, work: (tx: Tx) => Promise<R>) =>
        steps.run(name, (step) => runPhase(run, step, work, false) as Promise<R>),
      call: (name, effect, input) => steps.run(name, (step) => runCall(run, step, effect, input)) as never,
      finish: (name, work) => steps.run(name, (step) => runPhase(run, step, work, true)) as never,
      answeredBy: (effect) => {
        if (run.operation.execution === "deferred") return new AwaitedAnswer(run.runtime.effects, effect);
        throw new TypeError("answeredBy is for `deferred` execution: here a caller waits for the answer");
      },
    };
  }

  over(): void {
    this.#over.resolve();
  }

  async conclude(ran: Limited<Answer>): Promise<Conclusion> {
    const steps = this.#steps;
    if (steps === null) return this.#concludeUnread(ran);
    const running = steps.running;
    steps.close();
    if (running !== null) await withLimit(this.#runtime.ports.clock, stepEndLimitMs, () => running);
    if (steps.running !== null) {
      steps.abandon();
      // The attempt ends without the step, which may no longer commit or send.
      this.#held.abort(new Error("The attempt has ended without this step"));
    }
    if (steps.halted !== null && steps.halted.kind !== "lost") return this.#concludeHalted(ran, steps.halted);
    const open = steps.openCall;
    if (open !== null)
      return this.#doubt(ran, ran.kind === "timed_out" ? "attempt-limit" : "call-in-doubt", open);
    if (running !== null && ran.kind === "returned") {
      const error = new TypeError("run returned before its last step had ended: await every step");
      return this.#free({ kind: "threw", error }, "handler-threw");
    }
    if (steps.halted !== null && ran.kind === "returned") {
      // The work of a lost step is not done, whatever `run` returns.
      return this.#free({ kind: "threw", error: steps.halted.error }, "attempt-lost");
    }
    return this.#concludeFree(ran, steps);
  }

  /** Nothing of this attempt has begun, and the steps of earlier attempts are not known. */
  #concludeUnread(ran: Limited<Answer>): Conclusion {
    const errorCode = "journal-unread";
    const end =
      this.#isDeferred && !this.#hasAttemptsLeft
        ? ({ event: "doubt", errorCode, reconcileAfterMs: null } as const)
        : this.#retryLater(errorCode);
    return { ran: thrown(ran), end, ended: null };
  }

  #concludeHalted(ran: Limited<Answer>, halt: Exclude<Halt, { readonly kind: "lost" }>): Conclusion {
    switch (halt.kind) {
      case "completed": {
        this.#report(ran);
        const { answer, expiresAt } = halt;
        // Already written, by the last phase.
        const end = {
          event: "fail",
          answer: answer.body,
          retention: this.#handle.retention(),
          errorCode: null,
        } as const;
        return { ran: { kind: "returned", value: answer }, end, ended: { kind: "ended", expiresAt } };
      }
      case "unresolved":
        return {
          ran: { kind: "in_doubt" },
          end: this.#retryLater("commit-in-doubt"),
          ended: { kind: "in_doubt" },
        };
      case "doubt": {
        if (ran.kind !== "threw" || ran.error !== halt.error) this.#report(ran);
        const { errorCode, reconcileAfterMs } = halt;
        return {
          ran: { kind: "in_doubt" },
          end: { event: "doubt", errorCode, reconcileAfterMs },
          ended: null,
        };
      }
      default:
        return halt satisfies never;
    }
  }

  /** Nothing is in doubt. */
  async #concludeFree(ran: Limited<Answer>, steps: Steps): Promise<Conclusion> {
    if (ran.kind === "timed_out") return this.#free(thrown(ran), "attempt-limit");
    if (ran.kind === "threw") {
      if (steps.halted !== null || !steps.isRefusal(ran.error)) return this.#free(ran, "handler-threw");
      this.#report(ran);
      return this.#finished(
        "fail",
        failureAnswer("effect-refused", ran.error.message, { safeNewKey: !steps.areSeveral }),
        "effect-refused",
      );
    }
    const { status } = ran.value;
    const { execution, settings } = this.#operation;
    const { serverErrors } = settings;
    const declined = this.#handle.declined();
    const isAwaited = ran.value === awaited;
    const disposition = isAwaited ? "keep" : classifyAnswer({ execution, status, declined, serverErrors });
    if (disposition !== "keep") return this.#free(ran, declined ? "released" : `status-${status}`);
    const unfinished = steps.unfinished;
    if (unfinished !== null) {
      const error = new TypeError(
        `run returned status ${status} after finish ${unfinished}, whose answer had undone its work: return what finish returned`,
      );
      return this.#free({ kind: "threw", error }, "handler-threw");
    }
    if (!isAwaited) return this.#finished("complete", ran.value, null);
    // Nothing notifies the record if its delivery can no longer answer, so an attempt checks from time to time, until none is left.
    const resumeAfterMs = this.#operation.settings.pendingLimitMs;
    const end = { event: "retry_later", errorCode: awaitsDelivery, resumeAfterMs } as const;
    return { ran, end, ended: null };
  }

  async #finished(event: "complete" | "fail", answer: Answer, errorCode: string | null): Promise<Conclusion> {
    try {
      return await this.#ended(event, answer, errorCode);
    } catch (error) {
      return this.#free({ kind: "threw", error }, "answer-not-encoded");
    }
  }

  /** @throws the codec's errors. */
  async #ended(event: "complete" | "fail", answer: Answer, errorCode: string | null): Promise<Conclusion> {
    const record = this.#held.record();
    const context = codecContext(record, record.id, record.fingerprint.digest, "answer");
    const encoded = encodeAnswer(answer, this.#operation.settings.answerLimitBytes);
    const stored = await this.#runtime.codec.encode(encoded, context);
    const end = { event, answer: stored, retention: this.#handle.retention(), errorCode };
    return { ran: { kind: "returned", value: answer }, end, ended: null };
  }

  /**
   * A life with recorded steps stays for the next attempt; otherwise the key is free. A deferred request was accepted, so it is
   * tried again until no attempts are left.
   */
  async #free(ran: Limited<Answer>, errorCode: string): Promise<Conclusion> {
    const recorded = this.#steps?.recorded ?? true;
    if (this.#isDeferred && !this.#hasAttemptsLeft) return this.#spent(ran, recorded);
    const later = recorded || this.#isDeferred;
    return { ran, end: later ? this.#retryLater(errorCode) : { event: "release" }, ended: null };
  }

  async #spent(ran: Limited<Answer>, recorded: boolean): Promise<Conclusion> {
    this.#report(ran);
    const detail = "It was tried as often as its operation allows, and each attempt failed.";
    const how = { status: 500, title: "Internal Server Error", safeNewKey: !recorded };
    try {
      return await this.#ended("fail", failureAnswer("attempts-spent", detail, how), "attempts-spent");
    } catch (error) {
      const end = { event: "doubt", errorCode: "answer-not-encoded", reconcileAfterMs: null } as const;
      return { ran: { kind: "threw", error }, end, ended: null };
    }
  }

  get #isDeferred(): boolean {
    return this.#operation.execution === "deferred";
  }

  get #hasAttemptsLeft(): boolean {
    return this.#held.record().fence.attempt < this.#operation.settings.attemptsMax;
  }

  /** A request's caller gets an answer and may retry. A worker has no caller: workers continue while attempts are left. */
  #retryLater(errorCode: string): AttemptEnd {
    const { attempt } = this.#held.record().fence;
    const again = this.#source.by === "worker" && this.#hasAttemptsLeft;
    return { event: "retry_later", errorCode, resumeAfterMs: again ? workerPauseMs(attempt) : null };
  }

  #doubt(ran: Limited<Answer>, errorCode: string, effect: string): Conclusion {
    this.#report(ran);
    const reconcileAfterMs = reconcileAfter(this.#runtime, this.#operation, this.#held.record(), effect);
    return { ran: { kind: "in_doubt" }, end: { event: "doubt", errorCode, reconcileAfterMs }, ended: null };
  }

  #report(ran: Limited<Answer>): void {
    if (ran.kind !== "threw") return;
    const record = this.#held.record();
    const about = this.#runtime.about(this.#operation.name, record);
    this.#runtime.emit({ ...about, type: "attempt_failed", recordId: record.id, error: ran.error });
  }
}

function thrown(ran: Limited<Answer>): Limited<Answer> {
  return ran.kind === "timed_out" ? { kind: "threw", error: new LatchkeyError("attempt-limit") } : ran;
}
