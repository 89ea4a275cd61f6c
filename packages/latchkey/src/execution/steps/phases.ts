/** Phases: local work that commits together with its step. */
import { classifyAnswer } from "../../engine/classify.ts";
import { sameFence } from "../../engine/record.ts";
import { LatchkeyError } from "../../errors.ts";
import { type Answer, encodeAnswer } from "../../operations/answer.ts";
import type { RunAnswer } from "../../operations/owned-work.ts";
import { pause } from "../../ports.ts";
import { isSerializationFailure } from "../../sql/sql-state.ts";
import type { OpenPhase, PhaseOutcome, PhaseWork, TransactionSupport } from "../../stores/transactions.ts";
import type { SpanStart } from "../../telemetry/tracing.ts";
import { conflictPauses, retryPauseMs } from "../../time/retry-pause.ts";
import { withLimit } from "../../time/time-limit.ts";
import { lookAgain } from "../admission.ts";
import { answerOfRun } from "../answer-of-run.ts";
import { isAnswer } from "../lease/end-attempt.ts";
import { codecContext } from "../stored-values.ts";
import { EffectList } from "../transaction/enqueue.ts";
import { lose, type OwnedRun, reportStep, stepResult, storedJson } from "./attempt-context.ts";
import type { BegunStep } from "./steps.ts";

const runsMax = 8;
/** How long to wait for a COMMIT in doubt to be decided. */
const resolveLimitMs = 5_000;

/** The result of a phase's work before its transaction ends. */
type Worked =
  | { readonly kind: "threw"; readonly error: unknown }
  /** `result` is the value to store; null if the phase does not commit (an answer that is not stored). */
  | {
      readonly kind: "worked";
      readonly result: Uint8Array | null;
      readonly value: unknown;
      readonly answer: Answer | null;
      /** The result as it is stored. */
      readonly encoded: Uint8Array | null;
      /** Names of the effects that commit with it. */
      readonly enqueued: readonly string[];
    };

type Done =
  | { readonly kind: "committed"; readonly expiresAt: number | null }
  | { readonly kind: "again"; readonly error: unknown };

interface Phase<Tx> {
  readonly run: OwnedRun<Tx>;
  readonly step: BegunStep;
  readonly support: TransactionSupport<Tx>;
  /** The last phase: its return value is the answer. */
  readonly finishes: boolean;
  readonly work: (tx: Tx) => Promise<unknown>;
}

export async function runPhase<Tx>(
  run: OwnedRun<Tx>,
  step: BegunStep,
  work: (tx: Tx) => Promise<unknown>,
  finishes: boolean,
): Promise<unknown> {
  const { runtime, steps, held } = run;
  const { stored, name } = step;
  if (stored !== null) {
    if (stored.kind !== "phase" || finishes)
      return steps.change(`Step ${name} was a ${stored.kind} in an earlier attempt`);
    const about = runtime.about(run.operation.name, held.record());
    runtime.emit({ ...about, type: "step_resumed", recordId: held.record().id, step: name });
    return stepResult(run, name, stored.result);
  }
  const support = runtime.store.transactions;
  if (support === null)
    throw new TypeError(`Store ${runtime.store.name} has no transactions, so it has no phases`);
  const phase = { run, step, support, work, finishes };
  const { tracing } = runtime;
  return tracing === null
    ? untilCommitted(phase)
    : tracing.inSpan(startOf(phase), () => untilCommitted(phase));
}

function startOf<Tx>({ run, step }: Phase<Tx>): SpanStart {
  const attributes = {
    "latchkey.operation": run.operation.name,
    "latchkey.record.id": run.held.record().id,
    "latchkey.step": step.name,
  };
  return { name: `phase ${step.name}`, kind: "internal", attributes };
}

async function untilCommitted<Tx>(phase: Phase<Tx>): Promise<unknown> {
  const { held, runtime } = phase.run;
  const { clock, random } = runtime.ports;
  for (let round = 1; ; round++) {
    if (!held.holds()) lose(phase.run);
    const outcome = await transact(phase);
    const worked = outcome.value;
    const done = await doneAfter(phase, outcome);
    if (done.kind === "committed") return committed(phase, worked, done.expiresAt);
    if (worked.kind === "worked" && worked.result === null) {
      phase.run.steps.noteUnfinished(phase.step.name);
      return worked.value;
    }
    if (round >= runsMax) throw done.error;
    await pause(clock, retryPauseMs(round, random, conflictPauses), held.signal);
  }
}

async function transact<Tx>(phase: Phase<Tx>): Promise<PhaseOutcome<Worked>> {
  const { held, operation, steps } = phase.run;
  const { isolation, transactionLimitMs } = operation.settings;
  const request = { owner: held.owner(), isolation, idleLimitMs: transactionLimitMs };
  // A renewal may find the record already completed by the last phase.
  held.setEnding(phase.finishes);
  try {
    const outcome = await phase.support.phase<Worked>(request, async (open) => {
      // Once the attempt must stop, its end is decided without this step, which must not commit after that.
      const work = held.signal.aborted ? stopped() : await inPhase(phase, open);
      if (work.end !== "commit") return work;
      if (held.signal.aborted) return stopped();
      steps.noteRecorded();
      return work;
    });
    if (phase.finishes && outcome.kind === "committed") held.stop();
    return outcome;
  } finally {
    held.setEnding(false);
  }
}

function stopped(): PhaseWork<Worked> {
  return { end: "rollback", value: { kind: "threw", error: new LatchkeyError("attempt-limit") } };
}

async function inPhase<Tx>(phase: Phase<Tx>, open: OpenPhase<Tx>): Promise<PhaseWork<Worked>> {
  const { runtime, held, operation } = phase.run;
  const { transactionLimitMs } = operation.settings;
  const { clock } = runtime.ports;
  const { span } = phase.run;
  const place = { recordId: held.record().id, step: phase.step.name, now: clock.wallMs(), span };
  const effects = new EffectList(runtime, place);
  const ran = await withLimit(
    clock,
    transactionLimitMs,
    () => phase.run.effects.inside(effects, () => worked(phase, open)),
    held.signal,
  );
  open.revoke();
  effects.close();
  switch (ran.kind) {
    case "timed_out":
      return { end: "abandon", value: { kind: "threw", error: new LatchkeyError("attempt-limit") } };
    case "threw":
      return { end: "rollback", value: ran };
    case "returned":
      return concludes(phase, ran.value, effects).catch((error: unknown) => ({
        end: "rollback" as const,
        value: { kind: "threw" as const, error },
      }));
    default:
      return ran satisfies never;
  }
}

async function worked<Tx>({ work }: Phase<Tx>, { tx, flush }: OpenPhase<Tx>): Promise<unknown> {
  const value = await work(tx);
  await flush?.();
  return value;
}

/** @throws {TypeError} when the result cannot be stored. */
async function concludes<Tx>(
  phase: Phase<Tx>,
  value: unknown,
  list: EffectList<Tx>,
): Promise<PhaseWork<Worked>> {
  const { run, step, finishes } = phase;
  const { runtime, operation, held, handle } = run;
  const record = held.record();
  const { name, position } = step;
  const at = { name, position, version: operation.work.version };
  const enqueued = list.names();
  if (!finishes) {
    const result = await storedJson(
      runtime,
      record,
      `step-result:${name}`,
      `The result of phase ${name}`,
      value,
    );
    return {
      end: "commit",
      value: { kind: "worked", result, value, answer: null, encoded: null, enqueued },
      step: { ...at, result },
      completes: null,
      effects: await list.encoded(record),
    };
  }
  const answer = answerOfRun(value as RunAnswer);
  const { serverErrors, answerLimitBytes } = operation.settings;
  const declined = handle.declined();
  const disposition = classifyAnswer({
    execution: operation.execution,
    status: answer.status,
    declined,
    serverErrors,
  });
  if (disposition !== "keep") {
    const unkept = {
      kind: "worked",
      result: null,
      value,
      answer: null,
      encoded: null,
      enqueued: [],
    } as const;
    return { end: "rollback", value: unkept };
  }
  const context = codecContext(record, record.id, record.fingerprint.digest, "answer");
  const encoded = await runtime.codec.encode(encodeAnswer(answer, answerLimitBytes), context);
  const result = await storedJson(
    runtime,
    record,
    `step-result:${name}`,
    `The result of phase ${name}`,
    undefined,
  );
  return {
    end: "commit",
    value: { kind: "worked", result, value, answer, encoded, enqueued },
    step: { ...at, result },
    completes: { answer: encoded, retention: handle.retention() },
    effects: await list.encoded(record),
  };
}

async function doneAfter<Tx>(phase: Phase<Tx>, outcome: PhaseOutcome<Worked>): Promise<Done> {
  const { run } = phase;
  switch (outcome.kind) {
    case "committed":
      return outcome;
    case "lost":
      return lose(run);
    case "rolled_back":
      return doneAfterRollback(phase, outcome.value);
    case "refused":
      if (outcome.because === "serialization") return again(phase, outcome.error);
      if (outcome.because === "aborted") {
        throw new LatchkeyError("transaction-aborted", { cause: outcome.error });
      }
      throw outcome.error;
    case "in_doubt":
      return doneAfterDoubt(phase, outcome.value, outcome.error);
    case "changed": {
      const error = new LatchkeyError("transaction-changed");
      return run.steps.halt({ kind: "doubt", error, errorCode: error.code, reconcileAfterMs: null });
    }
    default:
      return outcome satisfies never;
  }
}

function doneAfterRollback<Tx>(phase: Phase<Tx>, worked: Worked): Done {
  if (worked.kind === "worked") return { kind: "again", error: null };
  if (phase.run.held.signal.aborted) lose(phase.run, worked.error);
  if (isSerializationFailure(worked.error)) return again(phase, worked.error);
  throw worked.error;
}

function again<Tx>({ run }: Phase<Tx>, error: unknown): Done {
  const about = run.runtime.about(run.operation.name, run.held.record());
  run.runtime.emit({ ...about, type: "transaction_rerun", because: "serialization" });
  return { kind: "again", error };
}

/** Under a new token the doubtful COMMIT can no longer take effect; the journal then shows the truth. */
async function doneAfterDoubt<Tx>({ run, step }: Phase<Tx>, worked: Worked, error: unknown): Promise<Done> {
  const { runtime, held, operation } = run;
  const about = runtime.about(operation.name, held.record());
  const unresolved = (cause: unknown): never => {
    runtime.emit({ ...about, type: "commit_in_doubt", resolved: "in_doubt" });
    const because = new LatchkeyError("commit-in-doubt", { cause });
    held.abort(because);
    return run.steps.halt({ kind: "unresolved", error: because });
  };
  // A new token would keep the key from the next attempt for the length of a lease.
  if (run.steps.abandoned) return unresolved(error);
  const journal = await held.refence(resolveLimitMs).catch(unresolved);
  const done = journal === null ? await endedInstead(run, worked, unresolved) : null;
  const there = done !== null || journal?.steps.some(({ name }) => name === step.name) === true;
  runtime.emit({ ...about, type: "commit_in_doubt", resolved: there ? "committed" : "rolled_back" });
  return done ?? (there ? { kind: "committed", expiresAt: null } : { kind: "again", error });
}

/** The attempt has ended or was lost; only its own last phase can have completed it under its fence with this answer. */
async function endedInstead<Tx>(
  run: OwnedRun<Tx>,
  worked: Worked,
  unresolved: (cause: unknown) => never,
): Promise<Done> {
  const { runtime, held } = run;
  const own = held.record();
  const reading = await lookAgain(runtime, own);
  if (reading === null) return unresolved(null);
  const { record } = reading;
  const encoded = worked.kind === "worked" ? worked.encoded : null;
  if (encoded === null || record?.id !== own.id || !sameFence(record.fence, own.fence)) return lose(run);
  // Its answer is already gone: no caller gets another one.
  if (record.state === "expired") return { kind: "committed", expiresAt: null };
  if (record.state !== "completed" || !isAnswer(record.answer, encoded)) return lose(run);
  return { kind: "committed", expiresAt: record.expiresAt };
}

async function committed<Tx>(phase: Phase<Tx>, worked: Worked, expiresAt: number | null): Promise<unknown> {
  const { runtime, steps } = phase.run;
  if (worked.kind !== "worked" || worked.result === null) {
    throw new TypeError(`Phase ${phase.step.name} cannot have been committed`);
  }
  reportStep(phase.run, phase.step.name, "phase");
  if (worked.enqueued.length > 0) runtime.hints.send("effects");
  if (worked.answer === null) return stepResult(phase.run, phase.step.name, worked.result);
  steps.complete(worked.answer, expiresAt);
  return worked.value;
}
