/** Handlers inside the transaction: what they may do, and the consequences. */
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { describe, expect, test } from "vitest";
import { answer, failFirst, insertsOrder, setUp } from "../../../../../test/support/transaction-world.ts";
import { LatchkeyError } from "../../errors.ts";
import type { Answer } from "../../operations/answer.ts";
import type { Work } from "../../operations/attempt.ts";
import type { MemoryTransaction } from "../../stores/memory.ts";
import type { TransactionOutcome, TransactionSupport } from "../../stores/transactions.ts";

/** The lock is lost, as an advisory lock is after a failover: two attempts run at once. */
function unlocked(support: TransactionSupport<MemoryTransaction>): TransactionSupport<MemoryTransaction> {
  return {
    ...support,
    run: (request, work) => support.run(request, (open) => work({ ...open, exclusive: true })),
  };
}

/** Runs `work` outside the present attempt's asynchronous context, as another request would be. */
const outside = new AsyncResource("another request");

describe("a handler", () => {
  test("that throws is rolled back, its error reaches the caller, and the key is free", async () => {
    const { submit, memory, starts } = setUp();
    const failing: Work<MemoryTransaction, "transaction"> = async ({ tx }) => {
      await tx.insert("orders", {});
      throw new Error("card declined");
    };
    await expect(submit(failing)).rejects.toThrow("card declined");
    expect(memory.rows("orders")).toHaveLength(0);
    expect(await submit(insertsOrder)).toMatchObject({ kind: "executed" });
    expect(starts()).toBe(2);
  });

  test.each<readonly [string, (() => Answer) | null]>([
    ["throws", null],
    ["answers 500", () => answer(500)],
  ])("that %s because another attempt has succeeded gets that attempt's answer", async (_what, ending) => {
    const { submit, memory } = setUp({ wrap: unlocked });
    const result = await submit(async () => {
      await outside.runInAsyncScope(() => submit(insertsOrder));
      if (ending !== null) return ending();
      throw Object.assign(new Error("duplicate key"), { code: "23505" });
    });
    expect(result).toMatchObject({ kind: "replay", answer: { status: 201 } });
    expect(memory.rows("orders")).toHaveLength(1);
  });

  test("that swallows the SQL error of another attempt's success gets that attempt's answer too", async () => {
    let first = true;
    const aborted = (outcome: TransactionOutcome<unknown>) =>
      ({ kind: "refused", value: outcome.value, because: "aborted", error: new Error("25P02") }) as const;
    const { submit } = setUp({
      wrap: (support) => ({
        ...support,
        run(request, work) {
          const run = first ? failFirst(unlocked(support), aborted) : unlocked(support).run;
          first = false;
          return run(request, work);
        },
      }),
    });
    const result = await submit(async () => {
      await outside.runInAsyncScope(() => submit(insertsOrder));
      return answer(409);
    });
    expect(result).toMatchObject({ kind: "replay", answer: { status: 201 } });
  });

  test("that never answers is abandoned at its limit and its tx is dead", async () => {
    const { submit, ports, memory } = setUp({ options: { transactionLimitMs: 1_000 } });
    let late: MemoryTransaction | undefined;
    let signal: AbortSignal | undefined;
    const running = submit(({ tx, attempt }) => {
      late = tx;
      signal = attempt.signal;
      return new Promise<Answer>(() => {});
    });
    const failure = running.catch((error: unknown) => error);
    await ports.clock.advance(1_000);
    expect(await failure).toMatchObject({ code: "attempt-limit" });
    expect(signal?.aborted).toBe(true);
    await expect(late?.insert("orders", {})).rejects.toBeInstanceOf(LatchkeyError);
    expect(memory.rows("orders")).toHaveLength(0);
    expect(await submit(insertsOrder)).toMatchObject({ kind: "executed" });
  });

  test("that answers 2xx without using tx is an error when strict", async () => {
    const { submit, starts } = setUp();
    await expect(submit(async () => answer(200))).rejects.toMatchObject({ code: "tx-unused" });
    await expect(submit(async () => answer(200))).rejects.toMatchObject({ code: "tx-unused" });
    expect(starts()).toBe(2);
  });

  test("that answers 2xx without using tx is reported in production, and fine with writes: none", async () => {
    const production = setUp({ strict: false });
    expect(await production.submit(async () => answer(200))).toMatchObject({
      kind: "executed",
      stored: true,
    });
    expect(production.events.map((event) => event.type)).toContain("tx_unused");
    const meant = setUp({ options: { writes: "none" } });
    expect(await meant.submit(async () => answer(200))).toMatchObject({ kind: "executed", stored: true });
    expect(meant.events.map((event) => event.type)).not.toContain("tx_unused");
  });

  test("that submits its own key again is refused", async () => {
    const { submit } = setUp();
    await expect(submit(async () => (await submit(insertsOrder)) as never)).rejects.toMatchObject({
      code: "nested-key",
    });
  });

  test("is over for work it left behind as soon as its caller has the answer", async () => {
    const { submit } = setUp();
    let within: <R>(call: () => R) => R = (call) => call();
    const first = submit(async (context) => {
      within = AsyncLocalStorage.snapshot();
      await expect(within(() => submit(insertsOrder))).rejects.toMatchObject({ code: "nested-key" });
      return insertsOrder(context);
    });
    expect(await first).toMatchObject({ kind: "executed" });
    expect(await within(() => submit(insertsOrder))).toMatchObject({ kind: "replay" });
  });

  test("can set how long its answer is stored", async () => {
    const { submit, ports, starts } = setUp({ options: { retentionMs: 1_000 } });
    const work: Work<MemoryTransaction, "transaction"> = async (context) => {
      context.attempt.retain({ retentionMs: 5_000 });
      return insertsOrder(context);
    };
    await submit(work);
    await ports.clock.advance(4_999);
    expect(await submit(work)).toMatchObject({ kind: "replay" });
    await ports.clock.advance(1);
    expect(await submit(work)).toMatchObject({ kind: "executed" });
    expect(starts()).toBe(2);
  });

  test.each([
    ["no whole number", { retentionMs: 0.5 }],
    ["endless", { retentionMs: Number.POSITIVE_INFINITY }],
    ["past", { forgetAfterMs: 0 }],
    ["no number", { retentionMs: Number.NaN }],
  ])("cannot set a retention that is %s", async (_what, retention) => {
    const { submit } = setUp();
    const failing = submit(async (context) => {
      context.attempt.retain(retention);
      return insertsOrder(context);
    });
    await expect(failing).rejects.toThrow("retain");
  });

  test("that runs again starts without the retention it set before", async () => {
    const refusal = (outcome: TransactionOutcome<unknown>) =>
      ({ kind: "refused", value: outcome.value, because: "serialization", error: new Error() }) as const;
    const { submitThrough, submit, starts, ports } = setUp({
      options: { retentionMs: 1_000 },
      wrap: (support) => ({ ...support, run: failFirst(support, refusal) }),
    });
    const work: Work<MemoryTransaction, "transaction"> = async (context) => {
      if (starts() === 1) context.attempt.retain({ retentionMs: 5_000 });
      return insertsOrder(context);
    };
    expect(await submitThrough(work)).toMatchObject({ result: { stored: true } });
    await ports.clock.advance(1_000);
    expect(await submit(insertsOrder)).toMatchObject({ kind: "executed" });
    expect(starts()).toBe(3);
  });
});
