import { expect, test } from "vitest";
import { manualPorts } from "../../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import type { TransactionSupport } from "../../stores/transactions.ts";

/** Every transaction is undone by the database in favour of another one. */
function setUp(options: { readonly transactionLimitMs?: number } = {}) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const begunAt: number[] = [];
  const run: TransactionSupport<MemoryTransaction>["run"] = (request, work) => {
    begunAt.push(ports.clock.monotonicMs());
    const { transactions } = memory;
    if (transactions === null) throw new Error("it has transactions");
    return transactions.run(request, work);
  };
  const transactions = memory.transactions === null ? null : { ...memory.transactions, run };
  const latchkey = createLatchkey<MemoryTransaction>({ store: { ...memory, transactions }, ports });
  const operation = latchkey.operation("op", { writes: "none", ...options });
  const undone = () => Promise.reject(Object.assign(new Error("deadlock detected"), { code: "40P01" }));
  const ended = latchkey.run(operation, { tenant: "t", key: "k", input: null }, undone);
  ended.catch(() => {});
  return {
    clock: ports.clock,
    ended,
    pauses: () => begunAt.slice(1).map((at, index) => at - (begunAt[index] ?? 0)),
  };
}

test("the pause before a rerun doubles, and the number of reruns has a limit", async () => {
  const { clock, ended, pauses } = setUp();
  await clock.advance(10_000);
  await expect(ended).rejects.toMatchObject({ code: "store-unavailable", certainty: "rolled_back" });
  expect(pauses()).toEqual([15, 30, 60, 120, 240, 480, 960]);
});

test("no rerun begins after the handler's time limit", async () => {
  const { clock, ended, pauses } = setUp({ transactionLimitMs: 200 });
  await clock.advance(10_000);
  await expect(ended).rejects.toMatchObject({ code: "store-unavailable" });
  expect(pauses()).toEqual([15, 30, 60]);
});
