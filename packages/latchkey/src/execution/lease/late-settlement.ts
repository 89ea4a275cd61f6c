/**
 * Settles the outcome of an owner that learns it too late: its lease has ended, or its outcome was written as unknown. As long as
 * its fence is the latest one, no other attempt has begun, so the owner may settle its own outcome, and never another attempt's.
 */
import type { InProgressRecord } from "../../engine/record.ts";
import type { Settlement } from "../../stores/settlement.ts";
import type { AttemptEnd } from "../../stores/store.ts";
import { retryUntil } from "../../time/retry-until.ts";
import type { Runtime } from "../runtime.ts";

const triesMax = 5;
const pauses = { firstMs: 200, maxMs: 1_000 };
const limitMs = 10_000;

type Completion = Extract<AttemptEnd, { readonly event: "complete" | "fail" }>;

export interface LateCall {
  readonly name: string;
  readonly generation: number;
  /** As the codec stored it. */
  readonly result: Uint8Array;
}

/** Settles the whole operation with the owner's answer. False: the record no longer belongs to the owner. */
export async function settleLate<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  { answer, retention }: Completion,
): Promise<boolean> {
  return settleOwn(runtime, record, { event: "settle_completed", answer, retention });
}

/** Stores the result of the owner's call. False: the record no longer belongs to the owner. */
export async function settleOwnCall<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  { name, generation, result }: LateCall,
): Promise<boolean> {
  const owner = { key: record, id: record.id, fence: record.fence };
  // The end of the lease may not have been noticed yet.
  const ended = await askBriefly(runtime, () =>
    runtime.store.journal.endCall(owner, { name, generation }, { event: "finish", result }),
  );
  if (ended) {
    const about = { ...runtime.about(record.operation, record), recordId: record.id };
    runtime.emit({ ...about, type: "step_finished", step: name, kind: "call" });
    return true;
  }
  return settleOwn(runtime, record, {
    event: "settle_call",
    call: name,
    generation,
    result,
    resumeAfterMs: 0,
  });
}

async function settleOwn<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  settlement: Settlement,
): Promise<boolean> {
  const { clock, random } = runtime.ports;
  const guard = { id: record.id, state: "unknown", fence: record.fence } as const;
  const note = { id: random.uuid(clock.wallMs()), actor: "owner", proof: "owner", reason: null };
  const settled = await askBriefly(runtime, () =>
    runtime.store.settlement.settle(record, guard, settlement, note),
  );
  if (settled) {
    const about = { ...runtime.about(record.operation, record), recordId: record.id };
    runtime.emit({ ...about, type: "settled", event: settlement.event, actor: "owner", proof: "owner" });
  }
  return settled;
}

/** No caller waits for this, so the tries end soon if the store fails. */
async function askBriefly<Tx>(runtime: Runtime<Tx>, ask: () => Promise<boolean>): Promise<boolean> {
  const untilMs = runtime.ports.clock.monotonicMs() + limitMs;
  const asked = await retryUntil(runtime.ports, { untilMs, triesMax, pauses }, ask);
  return asked.kind === "returned" && asked.value;
}
