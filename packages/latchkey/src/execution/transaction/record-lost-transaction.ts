import type { Guard } from "../../engine/record.ts";
import type { NewLife } from "../../stores/life.ts";
import { retryUntil } from "../../time/retry-until.ts";
import type { Runtime } from "../runtime.ts";

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

const patienceMs = 5_000;

/**
 * Records that a handler has ended its transaction itself, or would do again what is in steps, so that nothing runs again on
 * a guess. A store that fails is asked again: while nothing is written, the next retry would run.
 */
export async function recordLostTransaction<Tx>(
  runtime: Runtime<Tx>,
  { life, replaces }: Start,
  errorCode: "transaction-changed" | "steps-changed",
): Promise<Lost> {
  const { ports, store } = runtime;
  const untilMs = ports.clock.monotonicMs() + patienceMs;
  const recorded = await retryUntil(ports, { untilMs }, () =>
    store.recordLostTransaction(life, replaces, errorCode),
  );
  if (recorded.kind === "gave_up") return { kind: "in_doubt" };
  const record = recorded.value;
  if (record === null) return { kind: "met" };
  const about = { ...runtime.about(life.operation, life), recordId: record.id };
  runtime.emit({ ...about, type: "became_unknown", because: errorCode });
  return { kind: "unknown", recordId: record.id };
}
