import { retryUntil } from "../../time/retry-until.ts";
import type { Runtime } from "../runtime.ts";
import type { AdmittedLife } from "./job.ts";

export type Lost =
  | { readonly kind: "unknown"; readonly recordId: string }
  /** A record already exists; decide on it. */
  | { readonly kind: "met" }
  | { readonly kind: "in_doubt" };

const patienceMs = 5_000;

/**
 * Records that a handler has ended its transaction itself, or would repeat finished steps, so that nothing runs again on a
 * guess. The write is repeated if the store fails: until it is written, the next retry would run.
 */
export async function recordLostTransaction<Tx>(
  runtime: Runtime<Tx>,
  { life, replaces }: AdmittedLife,
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
