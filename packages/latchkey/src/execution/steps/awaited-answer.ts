/** Answers from deliveries: the record waits for the delivery, and no attempt runs meanwhile. */
import type { AnyEffect } from "../../effects/run-effect.ts";
import type { LatchkeyRecord } from "../../engine/record.ts";
import type { RunAnswer } from "../../operations/owned-work.ts";
import type { Runtime } from "../runtime.ts";

/** The error code of a `retryable` record that a delivery will complete. */
export const awaitsDelivery = "awaits-delivery";

/** `run` returns it in place of an answer. It has no valid status, so it cannot be mistaken for one. */
export class AwaitedAnswer implements RunAnswer {
  readonly status = Number.NaN;
  readonly effect: string;

  /** @throws {TypeError} when the effect belongs to another latchkey, or cannot give an answer. */
  constructor(effects: ReadonlyMap<string, AnyEffect>, effect: AnyEffect) {
    const { name, settings } = effect;
    if (effects.get(name) !== effect) {
      throw new TypeError(`answeredBy: effect ${name} was not made by this latchkey's effect()`);
    }
    if (settings.onDelivered === null) {
      throw new TypeError(`answeredBy: effect ${name} has no onDelivered to give the answer`);
    }
    this.effect = name;
  }
}

/**
 * Checks that a delivery of this life may still give the answer.
 *
 * @throws {TypeError} when no effect was enqueued that could.
 */
export async function checkAwaited<Tx>(
  { store }: Runtime<Tx>,
  recordId: string,
  { effect }: AwaitedAnswer,
): Promise<void> {
  const enqueued = (await store.outbox?.ofRecord(recordId)) ?? [];
  const wanted = enqueued.filter((one) => one.effect === effect);
  if (wanted.length === 0) throw new TypeError(`answeredBy: no effect ${effect} was enqueued`);
  if (wanted.every(({ state }) => state === "delivered")) {
    throw new TypeError(`answeredBy: effect ${effect} has been delivered, and onDelivered gave no answer`);
  }
}

/**
 * What an answer from a delivery means for the record that enqueued it.
 * - `answer`: the record waits for it.
 * - `later`: the record's attempt is still running, or its process died; try again later.
 * - `none`: the record does not wait, or no longer waits.
 */
export function awaitedBy<Tx>(
  { operations }: Runtime<Tx>,
  record: LatchkeyRecord | null,
  recordId: string,
): "answer" | "later" | "none" {
  if (record === null || record.id !== recordId) return "none";
  // An operation that is not defined here may be deferred elsewhere.
  if ((operations.get(record.operation)?.execution ?? "deferred") !== "deferred") return "none";
  switch (record.state) {
    case "retryable":
      return record.lastErrorCode === awaitsDelivery ? "answer" : "later";
    case "pending":
    case "in_progress":
    case "unknown":
      return "later";
    case "completed":
    case "failed":
    case "expired":
      return "none";
    default:
      return record satisfies never;
  }
}
