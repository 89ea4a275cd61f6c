/** The effects of the memory store. Values are copied when they are stored and when they are returned, so no caller holds a row. */
import type { LatchkeyRecord } from "../../engine/record.ts";
import type { DeliveryEnd, NewEffect, OutboxEffect } from "../outbox.ts";
import { keyOf } from "./life.ts";

export interface EffectRow {
  readonly effect: OutboxEffect;
  readonly dueAt: number;
  /** Null unless there is a claim. */
  readonly leaseEndsAt: number | null;
  /** How the last claim was ended, so that a repetition is recognised; null if it has not ended, or was rescued. */
  readonly endedBy: DeliveryEnd["event"] | null;
  /** When a delivered effect may be removed; null unless it is delivered. */
  readonly removeAt: number | null;
}

export class MemoryEffects {
  /** In the order in which they were written; changing a row keeps its position. */
  readonly #rows = new Map<string, EffectRow>();
  readonly #copy: (effect: OutboxEffect) => OutboxEffect;

  /** The default is correct; tests of the conformance suite pass a broken one. */
  constructor(copy = copyEffect) {
    this.#copy = copy;
  }

  find(id: string): EffectRow | null {
    const row = this.#rows.get(id);
    return row === undefined ? null : this.#copyRow(row);
  }

  /** In the order in which they were written. */
  all(): readonly EffectRow[] {
    return [...this.#rows.values()].map((row) => this.#copyRow(row));
  }

  put(row: EffectRow): EffectRow {
    this.#rows.set(row.effect.id, this.#copyRow(row));
    return this.#copyRow(row);
  }

  remove(id: string): void {
    this.#rows.delete(id);
  }

  #copyRow(row: EffectRow): EffectRow {
    return { ...row, effect: this.#copy(row.effect) };
  }
}

function copyEffect(effect: OutboxEffect): OutboxEffect {
  const { attempt, token } = effect.fence;
  return {
    ...effect,
    fence: { attempt, token },
    fingerprint: new Uint8Array(effect.fingerprint),
    input: new Uint8Array(effect.input),
    result: effect.result && new Uint8Array(effect.result),
  };
}

/** Writes the effects that a transaction or a phase of `record` enqueued. */
export function enqueue(
  effects: MemoryEffects,
  record: LatchkeyRecord,
  enqueued: readonly NewEffect[],
  now: number,
): void {
  for (const { delayMs, ...given } of enqueued) {
    const effect: OutboxEffect = {
      ...keyOf(record),
      ...given,
      state: "pending",
      recordId: record.id,
      operation: record.operation,
      fingerprint: record.fingerprint.digest,
      generation: 0,
      createdAt: now,
      fence: { attempt: 0, token: "" },
      sends: 0,
      returns: 0,
      doubtfulSince: null,
      result: null,
      lastErrorCode: null,
      finishedAt: null,
    };
    effects.put({ effect, dueAt: now + delayMs, leaseEndsAt: null, endedBy: null, removeAt: null });
  }
}
