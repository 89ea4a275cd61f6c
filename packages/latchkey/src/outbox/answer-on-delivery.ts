/** The answer that `onDelivered` may give to a deferred operation that waits for the delivery. */

import { guardOf, type LatchkeyRecord } from "../engine/record.ts";
import type { RunAnswer } from "../engine/run-answer.ts";
import { answerOfRun } from "../execution/answer-of-run.ts";
import type { Runtime } from "../execution/runtime.ts";
import { kept } from "../execution/settle.ts";
import { awaitedBy } from "../execution/steps/awaited-answer.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import type { DeliveryWork } from "../stores/transactions.ts";

export interface Answering {
  /** The attempt that enqueued the effect is still running, or may be. */
  readonly tooEarly: boolean;
  /** The record that an answer would complete; null if none waits. */
  readonly record: LatchkeyRecord | null;
  readonly answer: (answer: RunAnswer) => void;
  readonly given: () => RunAnswer | null;
}

/** Reads the record before the transaction opens: reading inside it would hold one connection while waiting for another. */
export async function createAnswering<Tx>(runtime: Runtime<Tx>, row: OutboxEffect): Promise<Answering> {
  const operation = runtime.operations.get(row.operation);
  const mayWait = operation === undefined || operation.execution === "deferred";
  const record = mayWait ? (await runtime.store.read(row)).record : null;
  const means = awaitedBy(runtime, record, row.recordId);
  let given: RunAnswer | null = null;
  return {
    tooEarly: means === "later",
    record: means === "answer" ? record : null,
    given: () => given,
    answer(answer) {
      if (!mayWait)
        throw new TypeError(`Operation ${row.operation} is not deferred: no request waits for an answer`);
      if (given !== null) throw new TypeError(`Effect ${row.effect} has answered twice`);
      answerOfRun(answer);
      given = answer;
    },
  };
}

/** The attempt that enqueued the effect has not ended yet; the answer is given on a later try. */
export class AnswerTooEarly extends Error {
  constructor() {
    super("The operation does not wait for its answer yet");
  }
}

/** @throws {AnswerTooEarly} */
export async function answersOf<Tx>(
  runtime: Runtime<Tx>,
  { record, given, tooEarly }: Answering,
): Promise<Extract<DeliveryWork<unknown>, { readonly end: "commit" }>["answers"]> {
  const answer = given();
  if (answer !== null && tooEarly) throw new AnswerTooEarly();
  if (record === null || answer === null) return null;
  const { tenant, scope, key } = record;
  return { key: { tenant, scope, key }, guard: guardOf(record), ...(await kept(runtime, record, answer)) };
}
