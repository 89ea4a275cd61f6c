/**
 * `transaction` execution: admission, the handler's writes and the stored answer are one transaction of the user's database.
 * The store and its bridge move bytes; every decision is in this folder or in `engine/`.
 */
import type { AdmissionRequest } from "../../engine/decide.ts";
import { isLatchkeyError, StoreError } from "../../errors.ts";
import type { Result, Work } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import { pause } from "../../ports.ts";
import type { OpenTransaction, TransactionOutcome, TransactionWork } from "../../stores/transactions.ts";
import { conflictPauses, retryPauseMs } from "../../time/retry-pause.ts";
import { admissionRequest, checkSubmission, countingNewKey, limited, report } from "../admission.ts";
import type { Submitted } from "../attempt-span.ts";
import { answerOfSeen } from "../replay-lookup.ts";
import type { Runtime } from "../runtime.ts";
import { waiting } from "../shared-wait.ts";
import { admit, newLife } from "./admit.ts";
import type { Job, Ran, Round, RoundState, SharedRounds } from "./job.ts";
import { rollback, runHandler } from "./run-handler.ts";
import { runOptimistic } from "./run-optimistic.ts";
import { afterChange, resultAfter } from "./transaction-ends.ts";

/** How often one submission starts over: each time, another transaction has made progress. */
const roundsMax = 8;

export async function runTransaction<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submitted,
  work: Work<Tx, "transaction">,
  batches: SharedRounds<Tx> | null = null,
): Promise<Result> {
  checkSubmission(submission);
  const support = runtime.store.transactions;
  if (support === null) throw new TypeError(`Store ${runtime.store.name} has no transactions`);
  const lookup = runtime.limits.lookups && (await limited(runtime, operation, submission, "lookups"));
  const { admission, waitMs } = operation.settings;
  const begin = (onHandlerStart: () => void) =>
    countingNewKey(runtime, operation, submission, (countNewKey) => {
      const optimistic = { next: admission === "optimistic" };
      const stepless = { guard: null };
      const job = {
        runtime,
        operation,
        submission,
        support,
        work,
        countNewKey,
        stepless,
        onHandlerStart,
        optimistic,
        batches,
      };
      return untilDecided(job);
    });
  const seen = lookup ?? (await answerOfSeen(runtime, operation, submission));
  const result =
    seen ??
    (await (waitMs === false ? begin(nothing) : waiting(runtime, operation, submission, waitMs, begin)));
  if (seen === null && isFinished(result)) runtime.finishedKeys.note(submission.key);
  report(runtime, operation, submission, result);
  return result;
}

function nothing(): void {}

function isFinished(result: Result): boolean {
  return result.kind === "replay" || (result.kind === "executed" && result.stored);
}

/** No round begins after the handler's time limit: by then its caller has waited long enough. */
async function untilDecided<Tx>(job: Job<Tx>): Promise<Result> {
  const { clock, random } = job.runtime.ports;
  const shared = job.batches === null ? null : await job.batches.round(job);
  if (shared !== null) return shared;
  const own = { ...job, batches: null };
  const deadline = clock.monotonicMs() + job.operation.settings.transactionLimitMs;
  for (let round = 1; ; round++) {
    const result = await runRound(own);
    if (result !== null) return result;
    const pauseMs = retryPauseMs(round, random, conflictPauses);
    if (round === roundsMax || clock.monotonicMs() + pauseMs >= deadline) {
      throw new StoreError("rolled_back", {
        message: `Gave up after ${round} tries, which conflicted with other transactions`,
      });
    }
    await pause(clock, pauseMs);
  }
}

async function runRound<Tx>(job: Job<Tx>): Promise<Round> {
  const { runtime, operation, submission } = job;
  const request = admissionRequest(operation, submission, runtime.ports.random.token());
  const roundState: RoundState = { admitted: null, startedAtMs: runtime.ports.clock.monotonicMs() };
  let outcome: TransactionOutcome<Ran>;
  try {
    outcome = await runOnce(job, request, roundState);
  } catch (error) {
    // The bridge tried to roll back, but the handler had already ended the transaction.
    const changed = isLatchkeyError(error) && error.code === "transaction-changed";
    if (roundState.admitted === null || !changed) throw error;
    return afterChange(job, roundState.admitted);
  }
  return await resultAfter(job, outcome, roundState);
}

function runOnce<Tx>(
  job: Job<Tx>,
  request: AdmissionRequest,
  roundState: RoundState,
): Promise<TransactionOutcome<Ran>> {
  const { key } = job.submission;
  const { isolation, transactionLimitMs: idleLimitMs, serverErrors } = job.operation.settings;
  const transaction = { key, isolation, idleLimitMs, savepoint: serverErrors === "store" };
  const { runOptimistic: begin } = job.support;
  const isOptimistic = job.optimistic.next && begin !== undefined;
  job.optimistic.next = false;
  return isOptimistic
    ? runOptimistic(job, begin, transaction, request, roundState)
    : job.support.run<Ran>(transaction, (open) => admitAndRun(job, open, request, roundState));
}

async function admitAndRun<Tx>(
  job: Job<Tx>,
  open: OpenTransaction<Tx>,
  request: AdmissionRequest,
  roundState: RoundState,
): Promise<TransactionWork<Ran>> {
  const admitted = await admit(job, open, request, (retried, now) =>
    newLife(job, retried, request.token, now),
  );
  if (admitted.kind === "ends") return rollback(admitted.ran);
  roundState.admitted = admitted.admittedLife;
  return await runHandler(job, open, admitted.admittedLife.life, open.reading.now, {
    result: () => admitted,
  });
}
