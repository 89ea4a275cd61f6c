import type { Guard } from "../engine/record.ts";
import { pause } from "../ports.ts";
import type { NewLife } from "../stores/store.ts";
import type { Runtime } from "./runtime.ts";

/** What a handler was started on. */
export interface Start {
  readonly life: NewLife;
  readonly replaces: Guard | null;
}

export type Lost =
  | { readonly kind: "unknown"; readonly recordId: string }
  /** A record is there already; decide on it. */
  | { readonly kind: "met" }
  | { readonly kind: "in_doubt" };

const retryStepMs = 50;
const patienceMs = 5_000;

/**
 * Records that a handler has ended its transaction itself, or would do again what is in steps, so that nothing runs again on
 * a guess. A store that fails is asked again: while nothing is written, the next retry would run.
 */
export async function loseTransaction<Tx>(
  runtime: Runtime<Tx>,
  { life, replaces }: Start,
  errorCode: "transaction-changed" | "steps-changed",
): Promise<Lost> {
  const { clock } = runtime.ports;
  const deadline = clock.monotonicMs() + patienceMs;
  for (;;) {
    try {
      const record = await runtime.store.loseTransaction(life, replaces, errorCode);
      return record === null ? { kind: "met" } : { kind: "unknown", recordId: record.id };
    } catch {
      if (clock.monotonicMs() >= deadline) return { kind: "in_doubt" };
    }
    await pause(clock, retryStepMs);
  }
}
