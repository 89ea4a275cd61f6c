/** Runs an operation that owns its work: for a request, and for a worker that continues a record. */
import type { Execution } from "../../engine/classify.ts";
import type { InProgressRecord, LatchkeyRecord } from "../../engine/record.ts";
import type { Result, Work } from "../../operations/attempt.ts";
import { leasedOperation, type OwnedOperation } from "../../operations/owned-operation.ts";
import type { Run } from "../../operations/owned-work.ts";
import { answerOfRun } from "../answer-of-run.ts";
import { inWorkerSpan, type Submitted } from "../attempt-span.ts";
import { claimedLeasedWork, resumeLeasedWork, runLeasedWork } from "../lease/run-lease.ts";
import { guardNesting } from "../nesting.ts";
import type { Runtime } from "../runtime.ts";
import { decodeJson, encodeJson } from "../stored-values.ts";
import type { SharedRounds } from "../transaction/job.ts";
import { runTransaction } from "../transaction/run-transaction.ts";
import { stepWork } from "./owned-attempt.ts";
import { runDeferred } from "./run-deferred.ts";

/** @throws {TypeError} when the input has no JSON form. */
export async function executeOwned<Tx, E extends Execution, I>(
  runtime: Runtime<Tx>,
  operation: OwnedOperation<E, I>,
  submission: Submitted,
  input: I,
  batches: SharedRounds<Tx> | null = null,
): Promise<Result> {
  const { name } = operation;
  if (runtime.operations.get(name) !== operation || !("work" in operation)) {
    throw new TypeError(`Operation ${name} was not defined with \`run\` on this latchkey`);
  }
  const bytes = encodeJson("The input", input);
  if (operation.execution === "deferred") return runDeferred(runtime, operation, submission, bytes);
  const leased = leasedOperation<Tx>(operation);
  if (leased !== null) {
    const leasedWork = stepWork(runtime, leased, { input: bytes, by: "request" });
    return runLeasedWork(runtime, leased, submission, leasedWork);
  }
  const run = operation.work.run as unknown as Run<I, Tx, "transaction">;
  const transactionWork: Work<Tx, "transaction"> = async ({ tx, attempt }) =>
    answerOfRun(await run(decodeJson(bytes) as I, { ...attempt, tx }));
  return runTransaction(runtime, operation, submission, transactionWork, batches);
}

/** A worker continues a record. Null: this process does not have its operation. */
export async function resumeOwned<Tx>(runtime: Runtime<Tx>, record: LatchkeyRecord): Promise<Result | null> {
  const operation = leasedOperation<Tx>(runtime.operations.get(record.operation));
  if (operation === null) return null;
  const leasedWork = stepWork(runtime, operation, { input: null, by: "worker" });
  return inWorkerSpan(runtime, operation, record, (span) =>
    guardNesting(record, (inside) =>
      inside(() => resumeLeasedWork(runtime, operation, record, leasedWork, span)),
    ),
  );
}

/**
 * A worker runs a record that it has claimed with `claimPending`. Null: this process does not have its operation, and the lease
 * ends.
 *
 * @param claimedAtMs monotonic time before the claim was sent
 * @throws {StoreError} when the store could not be used; another attempt continues the record later.
 * @throws the error of `run`, if another attempt will follow; it has been reported.
 */
export async function runClaimed<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  claimedAtMs: number,
): Promise<Result | null> {
  const operation = leasedOperation<Tx>(runtime.operations.get(record.operation));
  if (operation === null) return null;
  const leasedWork = stepWork(runtime, operation, { input: null, by: "worker" });
  return inWorkerSpan(runtime, operation, record, (span) =>
    guardNesting(record, (inside) =>
      inside(() => claimedLeasedWork(runtime, operation, record, leasedWork, claimedAtMs, span)),
    ),
  );
}
