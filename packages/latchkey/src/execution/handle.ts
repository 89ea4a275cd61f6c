import type { Fence, RecordKey } from "../engine/record.ts";
import type { Enqueue, EnqueuingAttempt, Submission } from "../operations/attempt.ts";
import type { OperationSettings } from "../operations/operation.ts";
import type { Retention } from "../stores/store.ts";
import { enqueueNowhere } from "./transaction/enqueue.ts";

/** An attempt, and what its handler has requested so far. */
export interface AttemptHandle {
  readonly attempt: EnqueuingAttempt;
  declined(): boolean;
  retention(): Retention;
}

/**
 * @param clientKey the key that the client sent
 * @param enqueue absent if no transaction runs: `attempt.enqueue` then throws
 */
export function createHandle(
  { id, fence, tenant, scope, key }: RecordKey & { readonly id: string; readonly fence: Fence },
  signal: AbortSignal,
  settings: OperationSettings,
  clientKey: string | null,
  enqueue: Enqueue = enqueueNowhere,
): AttemptHandle {
  let declined = false;
  let retention: Retention = { retentionMs: settings.retentionMs, forgetAfterMs: settings.forgetAfterMs };
  const attempt: EnqueuingAttempt = {
    id,
    key: clientKey,
    fence,
    record: { tenant, scope, key },
    signal,
    enqueue,
    release() {
      declined = true;
    },
    retain(wanted) {
      retention = checkedRetention(wanted, retention);
    },
  };
  return { attempt, declined: () => declined, retention: () => retention };
}

function checkedRetention(wanted: Partial<Retention>, current: Retention): Retention {
  const retentionMs = wanted.retentionMs ?? current.retentionMs;
  const forgetAfterMs = wanted.forgetAfterMs ?? Math.max(retentionMs, current.forgetAfterMs);
  const whole = Number.isSafeInteger(retentionMs) && Number.isSafeInteger(forgetAfterMs);
  if (!whole || retentionMs <= 0 || forgetAfterMs < retentionMs) {
    throw new TypeError(
      "retain: retentionMs and forgetAfterMs must be positive whole numbers, and forgetAfterMs must not be below retentionMs",
    );
  }
  return { retentionMs, forgetAfterMs };
}

/** The key that the client sent. */
export function sentKeyOf({ key, clientKey = key.key }: Submission): string | null {
  return clientKey;
}
