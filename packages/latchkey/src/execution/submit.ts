/** The entry to every execution: puts the key into its stored form, checks nesting and the circuit breaker, and picks the execution. */
import type { Execution } from "../engine/classify.ts";
import type { Result, Submission, Work } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import type { OwnedOperation } from "../operations/owned-operation.ts";
import { inRequestSpan, type Submitted } from "./attempt-span.ts";
import { checkSent } from "./check-sent.ts";
import { runLease } from "./lease/run-lease.ts";
import { guardNesting } from "./nesting.ts";
import { orUnprotected } from "./run-unprotected.ts";
import type { Runtime } from "./runtime.ts";
import { executeOwned } from "./steps/execute-owned.ts";
import type { SharedRounds } from "./transaction/job.ts";
import { runTransaction } from "./transaction/run-transaction.ts";

/**
 * Runs a handler for this submission, or returns why it did not. Throws as `latchkey.execute` does.
 *
 * @param batches shares its transactions; for an operation under `transaction`
 */
export function submit<Tx, E extends Execution>(
  runtime: Runtime<Tx>,
  operation: Operation<E>,
  sent: Submission,
  work: Work<Tx, E>,
  batches: SharedRounds<Tx> | null = null,
): Promise<Result> {
  return begin(runtime, operation, sent, (submission) =>
    guardNesting(submission.key, (inside) =>
      execute(runtime, operation, submission, (context) => inside(() => work(context)), batches),
    ),
  );
}

function execute<Tx, E extends Execution>(
  runtime: Runtime<Tx>,
  operation: Operation<E>,
  submission: Submitted,
  work: Work<Tx, E>,
  batches: SharedRounds<Tx> | null,
): Promise<Result> {
  if ("work" in operation) throw new TypeError(`Operation ${operation.name} owns its work: use serve`);
  if (operation.execution === "transaction") {
    const transactionWork = work as Work<Tx, "transaction">;
    return runtime.guard(() => runTransaction(runtime, operation, submission, transactionWork, batches));
  }
  const run = (leaseWork: Work<Tx, "lease">) =>
    runtime.guard(() => runLease(runtime, operation, submission, leaseWork));
  return operation.settings.onStoreFailure === "refuse"
    ? run(work as Work<Tx, "lease">)
    : orUnprotected(runtime, operation, submission, work as Work<Tx, "lease">, run);
}

/** Like `submit`, for an operation that owns its work. Throws as `latchkey.executeOwned` does. */
export function submitOwned<Tx, E extends Execution, I>(
  runtime: Runtime<Tx>,
  operation: OwnedOperation<E, I>,
  sent: Submission,
  input: I,
  batches: SharedRounds<Tx> | null = null,
): Promise<Result> {
  return begin(runtime, operation, sent, (submission) =>
    guardNesting(submission.key, (inside) =>
      inside(() => runtime.guard(() => executeOwned(runtime, operation, submission, input, batches))),
    ),
  );
}

function begin<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  sent: Submission,
  run: (submission: Submitted) => Promise<Result>,
): Promise<Result> {
  const { lifecycle, tracing } = runtime;
  return lifecycle.run(() => {
    const submission = withStoredKey(runtime, sent);
    return tracing === null ? run(submission) : inRequestSpan(tracing, operation, submission, run);
  });
}

function withStoredKey<Tx>(runtime: Runtime<Tx>, sent: Submission): Submission {
  checkSent(runtime.checkIdentity, sent);
  const { clientKey = sent.key.key } = sent;
  return { ...sent, clientKey, key: runtime.storedKey(sent.key) };
}
