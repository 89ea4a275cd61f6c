/** Answers finished keys before a transaction or lease is begun for them. */
import { decide } from "../engine/decide.ts";
import type { Result, Submission } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import type { Reading } from "../stores/life.ts";
import { admissionRequest, resultOf } from "./admission.ts";
import type { Runtime } from "./runtime.ts";

/** Answers from a copy of the record, if the store has copies. Null: there is no copy. */
export function answerOfCopy<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
): Promise<Result | null> | null {
  const { finished } = runtime.store;
  if (finished === undefined) return null;
  return finished
    .look(submission.key)
    .then((reading) => (reading === null ? null : answerOf(runtime, operation, submission, reading)));
}

/**
 * Answers from a copy, or from one reading if this process has seen the key finished. Null if it has not, if the key is no
 * longer finished, or if it may run as new.
 */
export function answerOfSeen<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
): Promise<Result | null> | null {
  const read = () =>
    runtime.finishedKeys.has(submission.key)
      ? runtime.store
          .read(submission.key)
          .then((reading) => answerOf(runtime, operation, submission, reading))
      : null;
  const copied = answerOfCopy(runtime, operation, submission);
  return copied === null ? read() : copied.then((result) => result ?? read());
}

function answerOf<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  { record, now }: Reading,
): Result | Promise<Result> | null {
  if (record?.state !== "completed" && record?.state !== "failed") return null;
  // No token: only running attempts need one.
  const verdict = decide(record, admissionRequest(operation, submission, ""), now);
  return verdict.kind === "answer" ? resultOf(runtime, verdict.decision, now) : null;
}
