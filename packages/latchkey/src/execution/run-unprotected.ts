/** Runs the work without protection if the store fails, for operations with `onStoreFailure: "run-unprotected"`. */
import { LatchkeyError } from "../errors.ts";
import type { Result, Submission, Work } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { withLimit } from "../time/time-limit.ts";
import { isStoreFailure } from "./guards/store-failure.ts";
import { createHandle, sentKeyOf } from "./handle.ts";
import type { Runtime } from "./runtime.ts";

/** Runs a leased submission; if the store fails before the work has started, runs the work without a record. */
export async function orUnprotected<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  work: Work<Tx, "lease">,
  protectedRun: (work: Work<Tx, "lease">) => Promise<Result>,
): Promise<Result> {
  let started = false;
  try {
    return await protectedRun((context) => {
      started = true;
      return work(context);
    });
  } catch (error) {
    if (started || !isStoreFailure(error)) throw error;
    const about = runtime.about(operation.name, submission.key);
    runtime.emit({ ...about, type: "ran_unprotected", error });
    return runUnprotected(runtime, operation, submission, work);
  }
}

async function runUnprotected<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  submission: Submission,
  work: Work<Tx, "lease">,
): Promise<Result> {
  const { clock, random } = runtime.ports;
  const id = random.uuid(clock.wallMs());
  const abort = new AbortController();
  const fence = { attempt: 1, token: random.token() };
  const place = { ...submission.key, id, fence };
  const { attempt } = createHandle(place, abort.signal, operation.settings, sentKeyOf(submission));
  const ran = await withLimit(clock, operation.settings.attemptLimitMs, () => work({ attempt }));
  switch (ran.kind) {
    case "returned":
      return { kind: "executed", recordId: id, answer: ran.value, stored: false, expiresAt: null };
    case "threw":
      throw ran.error;
    case "timed_out": {
      const error = new LatchkeyError("attempt-limit");
      abort.abort(error);
      throw error;
    }
    default:
      return ran satisfies never;
  }
}
