/** Answers to keys that are known to be finished before anything is begun for them. */
import { decide } from "../engine/decide.ts";
import type { Result, Submission } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import type { Reading } from "../stores/life.ts";
import { admissionRequest, resultOf } from "./admission.ts";
import type { Runtime } from "./runtime.ts";

/** From a copy of the record, where the store has such. Null: there is none. */
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
 * From a copy, or from one reading where this process has seen the key finished. Null: it has not, the key is finished no
 * more, or it may run as new.
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
  // The token is for attempts that are under way.
  const verdict = decide(record, admissionRequest(operation, submission, ""), now);
  return verdict.kind === "answer" ? resultOf(runtime, verdict.decision, now) : null;
}
