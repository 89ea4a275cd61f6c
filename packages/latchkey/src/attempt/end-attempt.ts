import { type InProgressRecord, type LatchkeyRecord, sameFence } from "../engine/record.ts";
import { pause } from "../ports.ts";
import type { AttemptEnd } from "../stores/store.ts";
import { lookAgain } from "./admission.ts";
import { withLimit } from "./limit.ts";
import type { Runtime } from "./runtime.ts";

const retryStepMs = 50;
/** A caller should hear within this time that the end is in doubt, however long the lease holds. */
const patienceMs = 10_000;
/** An owner that has already lost its lease asks the record once more, and does not insist. */
const lastTryMs = 2_000;

export type Ended =
  | { readonly kind: "ended"; readonly expiresAt: number | null }
  | { readonly kind: "lost" }
  | { readonly kind: "in_doubt" };

/**
 * Writes the end of an attempt until its fate is known. Repeating is safe: the write is guarded by the fence, and two
 * copies of it say the same. While the heartbeat keeps the lease the write may wait, behind a full pool for one; when
 * `leaseLost` aborts meanwhile, it is asked for once more: the beat may have met what this write has done. A read alone
 * never decides that it did not happen; only a guarded write that found the record elsewhere does.
 */
export async function endAttempt<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  end: AttemptEnd,
  leaseLost: AbortSignal,
): Promise<Ended> {
  const { clock } = runtime.ports;
  let held = !leaseLost.aborted;
  let deadline = clock.monotonicMs() + (held ? patienceMs : lastTryMs);
  let doubtful = false;
  for (;;) {
    // A call that never settled would keep its attempt, and with it the heartbeat and the key, for ever.
    const leftMs = Math.max(1, deadline - clock.monotonicMs());
    const written = await withLimit(
      clock,
      leftMs,
      () => runtime.store.end(record, record.id, record.fence, end),
      held ? leaseLost : undefined,
    );
    if (written.kind === "returned") {
      if (written.value !== null) return { kind: "ended", expiresAt: written.value.expiresAt };
      return doubtful ? await ownEarlierWrite(runtime, record, end) : { kind: "lost" };
    }
    doubtful = true;
    if (held && leaseLost.aborted) {
      held = false;
      deadline = clock.monotonicMs() + lastTryMs;
      continue;
    }
    if (clock.monotonicMs() >= deadline) return { kind: "in_doubt" };
    await pause(clock, retryStepMs);
  }
}

/** An earlier copy of the write, whose reply was lost, may be what the guard met. */
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

/** Whoever settles an outcome in doubt leaves the fence as it was, and may have another answer. */
export function isAnswer(found: Uint8Array | null, own: Uint8Array): boolean {
  return found !== null && Buffer.compare(found, own) === 0;
}
