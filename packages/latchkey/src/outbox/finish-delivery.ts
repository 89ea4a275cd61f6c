/** Finishes a delivery that has happened: its result is stored, and `onDelivered` runs in the transaction that ends it. */

import { sameFence } from "../engine/record.ts";
import { LatchkeyError } from "../errors.ts";
import { effectContext, encodeJson } from "../execution/stored-values.ts";
import { pause } from "../ports.ts";
import { isSerializationFailure } from "../sql/sql-state.ts";
import type { DeliveryOutcome, DeliveryWork, OpenPhase } from "../stores/transactions.ts";
import { conflictPauses, retryPauseMs } from "../time/retry-pause.ts";
import { type Limited, withLimit } from "../time/time-limit.ts";
import { type Answering, AnswerTooEarly, answersOf, createAnswering } from "./answer-on-delivery.ts";
import {
  askUntil,
  type Delivery,
  type DeliveryResult,
  delivered,
  type FailedVerdict,
  fail,
  left,
  pauseBeforeRetryMs,
  plainPart,
  retried,
  written,
} from "./delivery.ts";
import { type DeliveryState, unsentTries } from "./next-delivery.ts";

const runsMax = 8;
const answerTooEarly = "answer-too-early";

type Failed = Extract<FailedVerdict, { readonly kind: "retry" | "die" }>;

/** @param otherwise the verdict if the codec rejects the result */
export async function happened<Tx>(
  delivery: Delivery<Tx>,
  state: DeliveryState,
  value: unknown,
  otherwise: { readonly verdict: Failed; readonly returned: boolean },
): Promise<DeliveryResult> {
  const { returned } = otherwise;
  const { codec } = delivery.all.runtime;
  let plain: Uint8Array;
  try {
    plain = encodeJson("The result", value);
  } catch (error) {
    return fail(delivery, state, { kind: "die", errorCode: "result-not-stored", error }, returned);
  }
  let result: Uint8Array;
  try {
    const encoded = codec.encode(plain, effectContext(delivery.row, "result"));
    result = encoded instanceof Uint8Array ? encoded : await encoded;
  } catch (error) {
    return fail(delivery, state, { ...otherwise.verdict, error }, returned);
  }
  if (delivery.effect.settings.onDelivered !== null) {
    const kept = await written(delivery, { event: "keep_result", result });
    if (!kept) return left(delivery);
  }
  return finishDelivery(delivery, state, result);
}

/** The result is stored: from here on nothing is sent. */
export function finishDelivery<Tx>(
  delivery: Delivery<Tx>,
  state: DeliveryState,
  result: Uint8Array,
): Promise<DeliveryResult> {
  const { onDelivered } = delivery.effect.settings;
  return onDelivered === null
    ? endDelivered(delivery, state, result)
    : finishInTransaction(delivery, state, result);
}

async function endDelivered<Tx>(
  delivery: Delivery<Tx>,
  state: DeliveryState,
  result: Uint8Array,
): Promise<DeliveryResult> {
  const { keepMs } = delivery.effect.settings.delivery;
  const held = await written(delivery, { event: "deliver", result, keepMs });
  return held ? delivered(delivery, state, false) : left(delivery);
}

async function finishInTransaction<Tx>(
  delivery: Delivery<Tx>,
  state: DeliveryState,
  result: Uint8Array,
): Promise<DeliveryResult> {
  const { delivery: options } = delivery.effect.settings;
  const finished = await untilFinished(delivery, result);
  if (finished.kind === "delivered") return delivered(delivery, state, finished.answered);
  if (finished.kind === "lost") return left(delivery);
  if (finished.kind === "in_doubt") return afterCommitInDoubt(delivery, state, finished);
  // An attempt may run for any length of time, and afterwards its record waits for this answer.
  const mayWait = finished.errorCode === answerTooEarly;
  const spent = finished.kind === "retry" && !mayWait && unsentTries(state) >= options.attemptsMax;
  const verdict: Failed = spent
    ? { kind: "die", errorCode: "on-delivered-failed", error: finished.error }
    : finished;
  return fail(delivery, state, verdict, false);
}

type Finished =
  | { readonly kind: "delivered"; readonly answered: boolean }
  | { readonly kind: "lost" }
  | { readonly kind: "in_doubt"; readonly answered: boolean; readonly error: unknown }
  | Failed;

type Worked = { readonly kind: "threw"; readonly error: unknown } | { readonly kind: "worked" };

async function untilFinished<Tx>(delivery: Delivery<Tx>, result: Uint8Array): Promise<Finished> {
  const { clock, random } = delivery.all.runtime.ports;
  for (let round = 1; ; round++) {
    const finished = await tryToFinish(delivery, result).catch((error: unknown) => later(error));
    const again = finished.kind === "retry" && isSerializationFailure(finished.error);
    const pauseMs = retryPauseMs(round, random, conflictPauses);
    if (!again || round >= runsMax || clock.monotonicMs() + pauseMs >= delivery.ownedUntilMs) return finished;
    await pause(clock, pauseMs);
  }
}

function later(error: unknown): Failed {
  const errorCode = error instanceof AnswerTooEarly ? answerTooEarly : "on-delivered-failed";
  return { kind: "retry", errorCode, doubtful: true, error };
}

async function tryToFinish<Tx>(delivery: Delivery<Tx>, result: Uint8Array): Promise<Finished> {
  const { all, row, effect } = delivery;
  const answering = await createAnswering(all.runtime, row);
  const what = {
    input: (await plainPart(delivery, "input", row.input)) as never,
    result: (await plainPart(delivery, "result", result)) as never,
    tenant: row.tenant,
    recordId: row.recordId,
    operation: row.operation,
    key: row.downstreamKey,
    answer: answering.answer,
  };
  const { limits, delivery: options, onDelivered } = effect.settings;
  const claim = { id: row.id, fence: row.fence };
  const { tenant } = row;
  const request = { claim, tenant, idleLimitMs: limits.timeoutMs, keepMs: options.keepMs };
  const work = async (open: OpenPhase<Tx>): Promise<DeliveryWork<Worked>> => {
    const ran = await withLimit(all.runtime.ports.clock, limits.timeoutMs, async () => {
      await onDelivered?.(what, open.tx as never);
      await open.flush?.();
    });
    open.revoke();
    return endOf(delivery, ran, answering);
  };
  return finishedAfter(await all.transactions.deliver(request, work), answering);
}

async function endOf<Tx>(
  { all }: Delivery<Tx>,
  ran: Limited<void>,
  answering: Answering,
): Promise<DeliveryWork<Worked>> {
  switch (ran.kind) {
    case "timed_out":
      return { end: "abandon", value: { kind: "threw", error: new LatchkeyError("attempt-limit") } };
    case "threw":
      return { end: "rollback", value: ran };
    case "returned":
      try {
        return { end: "commit", value: { kind: "worked" }, answers: await answersOf(all.runtime, answering) };
      } catch (error) {
        return { end: "rollback", value: { kind: "threw", error } };
      }
    default:
      return ran satisfies never;
  }
}

function finishedAfter(outcome: DeliveryOutcome<Worked>, answering: Answering): Finished {
  const answered = answering.record !== null && answering.given() !== null;
  switch (outcome.kind) {
    case "committed":
      return { kind: "delivered", answered };
    case "rolled_back":
      return later(outcome.value.kind === "threw" ? outcome.value.error : null);
    case "refused":
      return later(outcome.error);
    case "lost":
      // The record may have changed while the claim still holds: the next end finds out.
      return answered ? later(null) : { kind: "lost" };
    case "in_doubt":
      return { kind: "in_doubt", answered, error: outcome.error };
    case "changed":
      // Its writes may be committed separately: running it again could repeat them.
      return { kind: "die", errorCode: "transaction-changed" };
    default:
      return outcome satisfies never;
  }
}

/**
 * The effect's own row shows the outcome once the doubtful COMMIT is decided: until then this write waits for the row's lock.
 * It is not batched, because the other items of a batch would wait, too.
 */
async function afterCommitInDoubt<Tx>(
  delivery: Delivery<Tx>,
  state: DeliveryState,
  { answered, error }: Extract<Finished, { readonly kind: "in_doubt" }>,
): Promise<DeliveryResult> {
  const { all, row, ownedUntilMs } = delivery;
  const { outbox } = all;
  const { id, fence } = row;
  const afterMs = pauseBeforeRetryMs(delivery, unsentTries(state));
  const errorCode = "commit-in-doubt";
  const retry = { event: "retry", errorCode, doubtful: true, returned: false, afterMs } as const;
  const held = await askUntil(all.runtime, ownedUntilMs, () => outbox.end([{ id, fence, ...retry }]));
  if (held === null) return left(delivery);
  if (held.includes(id)) return retried(delivery, state, { errorCode, error, afterMs });
  const now = (await outbox.ofRecord(row.recordId)).find((effect) => effect.id === id);
  const committed = now?.state === "delivered" && sameFence(now.fence, fence);
  return committed ? delivered(delivery, state, answered) : left(delivery);
}
