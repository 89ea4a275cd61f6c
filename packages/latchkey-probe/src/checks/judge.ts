/** Shared by the checks: compares a retry with the first answer. */
import { type Comparison, compareAnswers } from "../compare.ts";
import type { FaultCode } from "../faults.ts";
import type { Intention } from "../target.ts";
import { type Answer, headerOf, isAccepted } from "../wire/answer.ts";
import { type CheckContext, Inconclusive, type SendOptions, say } from "./check.ts";

/** The first answer to a new intention. @throws {Inconclusive} if the server does not accept it */
export async function firstAnswer(
  context: CheckContext,
  intention: Intention,
  key: string,
  options: SendOptions = {},
): Promise<Answer> {
  const answer = await context.send(intention, key, options);
  if (isAccepted(answer)) return answer;
  throw new Inconclusive(
    `a request under a new key is answered with ${say(answer)}, although others were accepted`,
  );
}

/**
 * An answer that says it is a replay is trusted, so that headers that a server adds to every answer do not count as another
 * execution.
 */
export function compare({ baseline }: CheckContext, first: Answer, again: Answer): Comparison {
  const isReplay = isMarked(again) && !isMarked(first);
  return compareAnswers(first, again, isReplay ? new Set() : baseline.marks);
}

export function ranAgain(context: CheckContext, first: Answer, again: Answer): boolean {
  return isAccepted(again) && compare(context, first, again).kind === "other-run";
}

export interface RetryFaults {
  readonly ranTwice: FaultCode;
  readonly refused: FaultCode;
  readonly failed: FaultCode;
}

/** Judges whether a retry is answered with the result of the first request, but not how faithfully. */
export function judgeRetry(
  context: CheckContext,
  first: Answer,
  again: Answer,
  faults: RetryFaults,
): boolean {
  if (again.status >= 500) {
    context.fault(
      faults.failed,
      `the retry is answered with ${say(again)}; the first answer was ${say(first)}`,
    );
    return false;
  }
  if (again.status >= 400) {
    context.fault(
      faults.refused,
      `the retry is answered with ${say(again)}; the first answer was ${say(first)}`,
    );
    return false;
  }
  const comparison = compare(context, first, again);
  if (comparison.kind !== "other-run") return true;
  context.fault(
    faults.ranTwice,
    `two answers come from two executions: ${comparison.places.join(", ")} differ`,
  );
  return false;
}

/** Counts the effects of `work`, if the operator provides a count, and reports more than one. */
export async function countedOnce<T>(
  context: CheckContext,
  ranTwice: FaultCode,
  work: () => Promise<T>,
): Promise<T> {
  const before = await context.count();
  const result = await work();
  const after = await context.count();
  if (before !== null && after !== null && after - before > 1) {
    context.fault(ranTwice, `one key had ${after - before} effects, according to the count`);
  }
  return result;
}

export function isMarked(answer: Answer): boolean {
  return headerOf(answer, "idempotent-replayed")?.toLowerCase() === "true";
}
