/** Operations under a lease: two processes over one memory store and one clock. */

import type { RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { Answer } from "../../packages/latchkey/src/operations/answer.ts";
import type { Submission, Work } from "../../packages/latchkey/src/operations/attempt.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import { manualPorts } from "./manual-ports.ts";

export const key: RecordKey = { tenant: "t", scope: "op", key: "k" };
export const submission: Submission = {
  key,
  fingerprint: { version: 1, digest: new Uint8Array([1]) },
  principal: null,
};

export const leaseMs = 3_000;
/** How long an owner that keeps its lease retries to write its end. */
export const patienceMs = 10_000;

export function answer(status: number, text = ""): Answer {
  return { status, headers: [], body: Buffer.from(text), omitted: null };
}

type LeaseWork = Work<MemoryTransaction, "lease">;
export const answers: LeaseWork = async () => answer(200, "done");

export function setUp(
  options: OperationOptions<"lease"> = {},
  wrap: (store: Store<MemoryTransaction>) => Partial<Store<MemoryTransaction>> = () => ({}),
) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey<MemoryTransaction>({
    store: { ...memory, ...wrap(memory) },
    ports,
    onEvent: (event) => events.push(event),
  });
  // The other process: the same store, its own latchkey.
  const other = createLatchkey<MemoryTransaction>({ store: memory, ports });
  const defined = { execution: "lease", leaseMs, ...options } as const;
  const operation = latchkey.operation("op", defined);
  const otherOperation = other.operation("op", defined);
  let starts = 0;
  const counted =
    (work: LeaseWork): LeaseWork =>
    (context) => {
      starts += 1;
      return work(context);
    };
  return {
    ports,
    memory,
    events,
    latchkey,
    other,
    submit: (work: LeaseWork, given = submission) => latchkey.execute(operation, given, counted(work)),
    submitElsewhere: (work: LeaseWork) => other.execute(otherOperation, submission, counted(work)),
    starts: () => starts,
  };
}

/** A handler that signals its start and waits until it is released. */
export function gated(result: Answer | Error = answer(200, "late")) {
  const started = Promise.withResolvers<AbortSignal>();
  const gate = Promise.withResolvers<void>();
  const work: LeaseWork = async ({ attempt }) => {
    started.resolve(attempt.signal);
    await gate.promise;
    if (result instanceof Error) throw result;
    return result;
  };
  return { work, started: started.promise, release: gate.resolve };
}
