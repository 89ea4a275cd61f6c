/** Operations in one transaction with their answer, over a memory store that may misbehave as databases do. */

import type { RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { Answer } from "../../packages/latchkey/src/operations/answer.ts";
import type { Submission, Work } from "../../packages/latchkey/src/operations/attempt.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type {
  OpenTransaction,
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../../packages/latchkey/src/stores/transactions.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import { manualPorts } from "./manual-ports.ts";

export const key: RecordKey = { tenant: "t", scope: "op", key: "k" };
export const submission: Submission = {
  key,
  fingerprint: { version: 1, digest: new Uint8Array([1]) },
  principal: null,
};

export function answer(status: number, text = ""): Answer {
  return { status, headers: [["content-type", "text/plain"]], body: Buffer.from(text), omitted: null };
}

export interface Setup {
  readonly options?: OperationOptions<"transaction">;
  readonly strict?: boolean;
  readonly wrap?: (support: TransactionSupport<MemoryTransaction>) => TransactionSupport<MemoryTransaction>;
  readonly store?: (store: Store<MemoryTransaction>) => Store<MemoryTransaction>;
}

export function setUp({
  options = {},
  strict = true,
  wrap = (support) => support,
  store = (same) => same,
}: Setup = {}) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const support = memory.transactions;
  if (support === null) throw new Error("unreachable");
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey<MemoryTransaction>({
    store: store({ ...memory, transactions: wrap(support) }),
    ports,
    strict,
    onEvent: (event) => events.push(event),
  });
  const operation = latchkey.operation("op", options);
  let starts = 0;
  const submit = (work: Work<MemoryTransaction, "transaction">, given: Submission = submission) =>
    latchkey.execute(operation, given, (context) => {
      starts += 1;
      return work(context);
    });
  /** Submits and moves the clock through every pause between two tries. */
  const submitThrough = async (work: Work<MemoryTransaction, "transaction">) => {
    const settled = submit(work).then(
      (result) => ({ result }),
      (error: unknown) => ({ error }),
    );
    for (;;) {
      const done = await Promise.race([settled, ports.clock.advance(20)]);
      if (done !== undefined) return done;
    }
  };
  return { ports, memory, latchkey, operation, submit, submitThrough, events, starts: () => starts };
}

export const insertsOrder: Work<MemoryTransaction, "transaction"> = async ({ tx }) => {
  await tx.insert("orders", { amount: 1 });
  return answer(201, "created");
};

type Run = TransactionSupport<MemoryTransaction>["run"];

/** Rolls the first `times` commits back in the store, and reports `change` of their outcome. */
export function failFirst(
  support: TransactionSupport<MemoryTransaction>,
  change: (outcome: TransactionOutcome<unknown>) => TransactionOutcome<unknown>,
  times = 1,
): Run {
  let left = times;
  return async <T>(request: TransactionRequest, work: WorkOf<T>) => {
    if (left <= 0) return support.run(request, work);
    left -= 1;
    let committing = false;
    const outcome = await support.run(
      request,
      rolledBack(work, () => (committing = true)),
    );
    return (committing ? change(outcome) : outcome) as TransactionOutcome<T>;
  };
}

export type WorkOf<T> = (open: OpenTransaction<MemoryTransaction>) => Promise<TransactionWork<T>>;

export function rolledBack<T>(work: WorkOf<T>, onCommit?: () => void): WorkOf<T> {
  return async (open) => {
    const ended = await work(open);
    if (ended.end === "commit") onCommit?.();
    return { end: "rollback", value: ended.value };
  };
}
