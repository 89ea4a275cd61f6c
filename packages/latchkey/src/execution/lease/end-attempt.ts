import { type InProgressRecord, type LatchkeyRecord, sameFence } from "../../engine/record.ts";
import type { AttemptEnd } from "../../stores/store.ts";
import { retryUntil } from "../../time/retry-until.ts";
import { lookAgain } from "../admission.ts";
import type { Runtime } from "../runtime.ts";

/** A caller is answered within this time if the end is in doubt, however long the lease holds. */
const patienceMs = 10_000;
/** An owner that has already lost its lease tries the write only briefly. */
const lastTryMs = 2_000;

export type Ended =
  | { readonly kind: "ended"; readonly expiresAt: number | null }
  | { readonly kind: "lost" }
  | { readonly kind: "in_doubt" };

/**
 * Writes the end of an attempt until its outcome is known. Repeating is safe: the write is guarded by the fence, and two
 * copies of it are equal. While the heartbeat keeps the lease, the write may wait, for example for a connection. If
 * `leaseLost` aborts meanwhile, the write is tried once more, because the renewal may have failed only since the write has ended
 * the record. A read alone never proves that the write did not happen; only a guarded write that found the record changed does.
 */
export async function endAttempt<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  end: AttemptEnd,
  leaseLost: AbortSignal,
): Promise<Ended> {
  const { ports, store } = runtime;
  const write = () => store.end(record, record.id, record.fence, end);
  const within = (limitMs: number) => ports.clock.monotonicMs() + limitMs;
  let doubtful = false;
  if (!leaseLost.aborted) {
    const written = await retryUntil(ports, { untilMs: within(patienceMs), signal: leaseLost }, write);
    if (written.kind === "returned") return endedBy(runtime, record, end, written.value, written.tries > 1);
    if (!leaseLost.aborted) return { kind: "in_doubt" };
    doubtful = true;
  }
  const last = await retryUntil(ports, { untilMs: within(lastTryMs) }, write);
  if (last.kind === "gave_up") return { kind: "in_doubt" };
  return endedBy(runtime, record, end, last.value, doubtful || last.tries > 1);
}

/** @param doubtful whether an earlier copy of the write may have been done */
async function endedBy<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  end: AttemptEnd,
  written: { readonly expiresAt: number | null } | null,
  doubtful: boolean,
): Promise<Ended> {
  if (written !== null) return { kind: "ended", expiresAt: written.expiresAt };
  return doubtful ? ownEarlierWrite(runtime, record, end) : { kind: "lost" };
}

/** The guard may have failed because of an earlier copy of the write whose reply was lost. */
async function ownEarlierWrite<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  end: AttemptEnd,
): Promise<Ended> {
  const reading = await lookAgain(runtime, record);
  if (reading === null) return { kind: "in_doubt" };
  return isOwn(reading.record, record, end)
    ? {
        kind: "ended",
        expiresAt: reading.record !== null && "expiresAt" in reading.record ? reading.record.expiresAt : null,
      }
    : { kind: "lost" };
}

function isOwn(found: LatchkeyRecord | null, record: InProgressRecord, end: AttemptEnd): boolean {
  if (found === null) return end.event === "release";
  if (found.id !== record.id || !sameFence(found.fence, record.fence)) return false;
  switch (end.event) {
    case "complete":
      return found.state === "completed" && isAnswer(found.answer, end.answer);
    case "fail":
      return found.state === "failed" && isAnswer(found.answer, end.answer);
    case "doubt":
      return found.state === "unknown";
    case "retry_later":
      return found.state === "retryable";
    case "release":
      return false;
    default:
      return end satisfies never;
  }
}

/** A settlement of an outcome in doubt does not change the fence, but may have another answer. */
export function isAnswer(found: Uint8Array | null, own: Uint8Array): boolean {
  return found !== null && Buffer.compare(found, own) === 0;
}
