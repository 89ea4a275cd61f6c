/** One delivery, from its claim to its end. */

import { windowIsOver } from "../effects/dedupe-window.ts";
import { downstreamKey } from "../effects/downstream-key.ts";
import { lookUpSend } from "../effects/look-up.ts";
import { type Sent, sendEffect } from "../effects/run-effect.ts";
import { StoreError } from "../errors.ts";
import { decodeJson } from "../execution/stored-values.ts";
import { isSuspect } from "./crash-suspects.ts";
import {
  askUntil,
  type Delivery,
  type DeliveryResult,
  end,
  type FailedVerdict,
  fail,
  leaseMsOf,
  left,
  plainBytes,
  sendsUntilMs,
} from "./delivery.ts";
import { inDeliverySpan, inLookUpSpan } from "./delivery-span.ts";
import { finishDelivery, happened } from "./finish-delivery.ts";
import { afterLookUp, afterSend, type DeliveryState, nextDelivery, unsentTries } from "./next-delivery.ts";
import { sendSuspect } from "./send-suspect.ts";

/** Never rejects: a failure here costs this effect one try and does not affect the others. */
export async function deliver<Tx>(delivery: Delivery<Tx>): Promise<DeliveryResult> {
  try {
    const { tracing } = delivery.all.runtime;
    return await (tracing === null
      ? deliverClaimed(delivery)
      : inDeliverySpan(tracing, delivery, deliverClaimed));
  } catch (error) {
    return left(delivery, error);
  }
}

const inDoubt = { kind: "retry", errorCode: "call-in-doubt", doubtful: true } as const;
const deadInDoubt = { kind: "die", errorCode: "call-in-doubt" } as const;

async function deliverClaimed<Tx>(delivery: Delivery<Tx>): Promise<DeliveryResult> {
  const { all, before, effect } = delivery;
  if (all.stopping()) return end(delivery, { event: "give_back" }, "given_back");
  const now = before.doubtfulSince === null ? 0 : await storeTime(delivery);
  const next = nextDelivery(before, effect.settings, now);
  switch (next.kind) {
    case "die":
      return conclude(delivery, before, next, false);
    case "finish":
      return before.result === null ? "left" : finishDelivery(delivery, before, before.result);
    case "look_up": {
      const input = await readInput(delivery);
      return "kind" in input ? conclude(delivery, before, input, false) : lookUp(delivery, input.value);
    }
    case "send": {
      const read = readInput(delivery);
      const input = read instanceof Promise ? await read : read;
      if ("kind" in input) return conclude(delivery, before, input, false);
      return isSuspect(before)
        ? sendSuspect(delivery, () => send(delivery, input.value))
        : send(delivery, input.value);
    }
    default:
      return next satisfies never;
  }
}

async function storeTime<Tx>({ all, row, ownedUntilMs }: Delivery<Tx>): Promise<number> {
  const now = await askUntil(all.runtime, ownedUntilMs, () => all.storeTime.now(row));
  if (now === null) throw new StoreError("not_sent");
  return now;
}

type InputRead = { readonly value: unknown } | FailedVerdict;

/** At once where the codec needs no promise. */
function readInput<Tx>(delivery: Delivery<Tx>): InputRead | Promise<InputRead> {
  try {
    const plain = plainBytes(delivery, "input", delivery.row.input);
    return plain instanceof Uint8Array ? { value: decodeJson(plain) } : readLater(delivery, plain);
  } catch (error) {
    return notReadable(delivery, error);
  }
}

async function readLater<Tx>(delivery: Delivery<Tx>, plain: Promise<Uint8Array>): Promise<InputRead> {
  try {
    return { value: decodeJson(await plain) };
  } catch (error) {
    return notReadable(delivery, error);
  }
}

/** Invalid JSON stays invalid, so the effect dies; a codec may lack its key for a while, so it is retried. */
function notReadable<Tx>({ before, effect }: Delivery<Tx>, error: unknown): FailedVerdict {
  const errorCode = "input-not-readable";
  const spent = unsentTries(before) >= effect.settings.delivery.attemptsMax;
  if (spent || error instanceof SyntaxError) return { kind: "die", errorCode, error };
  return { kind: "retry", errorCode, doubtful: before.doubtfulSince !== null, error };
}

async function lookUp<Tx>(delivery: Delivery<Tx>, input: unknown): Promise<DeliveryResult> {
  const { all, row, before, effect } = delivery;
  const asking = { effect, key: row.downstreamKey };
  const ask = () => lookUpSend(all.runtime.ports.clock, asking, input);
  const { tracing } = all.runtime;
  const asked = tracing === null ? ask() : inLookUpSpan(tracing, delivery, ask);
  const looked = await asked.catch((error: unknown) => ({
    kind: "failed" as const,
    error,
  }));
  const error = looked.kind === "failed" ? looked.error : undefined;
  return conclude(delivery, before, { ...afterLookUp(before, effect.settings, looked), error }, false);
}

async function send<Tx>(given: Delivery<Tx>, input: unknown): Promise<DeliveryResult> {
  const started = given.unsent ? startedByClaim(given) : await start(given);
  if (started === null) return left(given);
  const { delivery, mayBegin } = started;
  const { row, before, effect } = delivery;
  if (!mayBegin) {
    const doubtful = before.doubtfulSince !== null;
    return end({ ...delivery, unsent: true }, { event: "give_back", doubtful }, "given_back");
  }
  delivery.onSend();
  const outcome = await sendEffect(
    delivery.all.runtime.ports.clock,
    { effect, key: row.downstreamKey },
    input,
  );
  delivery.onReturn();
  const verdict = afterSend(before, effect.settings, outcome);
  const sent = afterOneMore(before);
  if (outcome.kind === "returned") return conclude(delivery, sent, verdict, true);
  return conclude(delivery, sent, { ...verdict, error: errorOf(outcome) }, true);
}

function afterOneMore({ fence, sends, returns, doubtfulSince, result }: DeliveryState): DeliveryState {
  return { fence, sends: sends + 1, returns, doubtfulSince, result };
}

function errorOf(outcome: Exclude<Sent, { readonly kind: "returned" }>): unknown {
  return outcome.kind === "refused" ? outcome.refusal : outcome.error;
}

interface StartedSend<Tx> {
  readonly delivery: Delivery<Tx>;
  readonly mayBegin: boolean;
}

/** Nothing is in doubt, so no window can be over. */
function startedByClaim<Tx>(delivery: Delivery<Tx>): StartedSend<Tx> {
  const { all, effect, ownedUntilMs } = delivery;
  const untilMs = sendsUntilMs(effect, ownedUntilMs - leaseMsOf(effect));
  const mayBegin = all.runtime.ports.clock.monotonicMs() < untilMs;
  return { delivery: { ...delivery, unsent: !mayBegin }, mayBegin };
}

/** Records that a send begins. Null: the claim no longer holds, or the store did not answer. */
async function start<Tx>(delivery: Delivery<Tx>): Promise<StartedSend<Tx> | null> {
  const { all, row, before, effect, ownedUntilMs } = delivery;
  const { clock } = all.runtime.ports;
  const leaseMs = leaseMsOf(effect);
  const claim = { id: row.id, fence: row.fence };
  let askedAtMs = clock.monotonicMs();
  const held = await askUntil(all.runtime, Math.min(ownedUntilMs, sendsUntilMs(effect, askedAtMs)), () => {
    askedAtMs = clock.monotonicMs();
    return all.starts(leaseMs).add(claim);
  });
  if (held === false) return null;
  // Check again just before the send: the process may have been frozen since the claim.
  const inTime = held === true && clock.monotonicMs() < sendsUntilMs(effect, askedAtMs);
  const { doubtfulSince } = before;
  const inWindow =
    doubtfulSince === null ||
    effect.settings.deduplication !== "provider" ||
    !windowIsOver(doubtfulSince, effect, all.storeTime.estimate());
  return { delivery: { ...delivery, ownedUntilMs: askedAtMs + leaseMs }, mayBegin: inTime && inWindow };
}

/** @param returned whether a send returned under this claim */
function conclude<Tx>(
  delivery: Delivery<Tx>,
  state: DeliveryState,
  verdict: FailedVerdict,
  returned: boolean,
): Promise<DeliveryResult> {
  switch (verdict.kind) {
    case "happened": {
      const { deduplication } = delivery.effect.settings;
      const unstored = deduplication === "none" ? deadInDoubt : inDoubt;
      return happened(delivery, state, verdict.value, { verdict: unstored, returned });
    }
    case "reopen": {
      const { recordId, step, effect, index, generation } = delivery.row;
      const next = downstreamKey({ recordId, step, effect, index, generation: generation + 1 });
      return end(delivery, { event: "reopen", downstreamKey: next }, "reopened");
    }
    case "retry":
    case "die":
      return fail(delivery, state, verdict, returned);
    default:
      return verdict satisfies never;
  }
}
