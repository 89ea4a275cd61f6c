/** How the database ends the transaction: refused, aborted, in doubt, or ended by the handler. */
import { describe, expect, test } from "vitest";
import {
  answer,
  failFirst,
  insertsOrder,
  rolledBack,
  type Setup,
  setUp,
  type WorkOf,
} from "../../../../../test/support/transaction-world.ts";
import { LatchkeyError, StoreError } from "../../errors.ts";
import type { Work } from "../../operations/attempt.ts";
import type { MemoryTransaction } from "../../stores/memory.ts";
import type {
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
} from "../../stores/transactions.ts";

/** Overrides the outcome of the first transactions, as a database that misbehaves would. */
function outcomes(
  ...planned: ((outcome: TransactionOutcome<unknown>) => TransactionOutcome<unknown>)[]
): NonNullable<Setup["wrap"]> {
  return (support) => ({
    ...support,
    async run<T>(request: TransactionRequest, work: WorkOf<T>) {
      const outcome = await support.run(request, work);
      const change = planned.shift();
      return (change === undefined ? outcome : change(outcome)) as TransactionOutcome<T>;
    },
  });
}

/** What bridges do when a rollback finds that the handler has ended the transaction: there is nothing to roll back. */
function endedByHandler(
  support: TransactionSupport<MemoryTransaction>,
): TransactionSupport<MemoryTransaction> {
  return {
    ...support,
    async run(request, work) {
      let ran = false;
      const outcome = await support.run(request, (open) => {
        ran = open.exclusive && open.reading.record === null;
        return work(open);
      });
      if (ran && outcome.kind === "rolled_back") throw new LatchkeyError("transaction-changed");
      return outcome;
    },
  };
}

describe("the database", () => {
  test("refuses for serialization: the whole transaction runs again", async () => {
    const refusal = (outcome: TransactionOutcome<unknown>) =>
      ({
        kind: "refused",
        value: outcome.value,
        because: "serialization",
        error: new Error("40001"),
      }) as const;
    // The override pretends that the store rolled back, so the handler must not have written through a real commit.
    const { submitThrough, starts, events } = setUp({
      wrap: (support) => ({
        ...support,
        run: failFirst(support, refusal),
      }),
    });
    expect(await submitThrough(insertsOrder)).toMatchObject({ result: { kind: "executed", stored: true } });
    expect(starts()).toBe(2);
    expect(events).toContainEqual(
      expect.objectContaining({ type: "transaction_rerun", because: "serialization" }),
    );
  });

  test("always refuses: the caller gets that the store is not available", async () => {
    const { submitThrough } = setUp({
      wrap: (support) => ({
        ...support,
        run: async (request, work) => {
          const outcome = await support.run(request, rolledBack(work));
          return { kind: "lost", value: outcome.value };
        },
      }),
    });
    expect(await submitThrough(insertsOrder)).toMatchObject({ error: { code: "store-unavailable" } });
  });

  test("has an aborted transaction: a 4xx is sent unstored, a 2xx is an error", async () => {
    const aborted = (outcome: TransactionOutcome<unknown>) =>
      ({ kind: "refused", value: outcome.value, because: "aborted", error: new Error("25P02") }) as const;
    const wrap: Setup["wrap"] = (support) => ({
      ...support,
      run: failFirst(support, aborted, Number.POSITIVE_INFINITY),
    });
    expect(await setUp({ wrap }).submit(async () => answer(409))).toMatchObject({
      kind: "executed",
      stored: false,
    });
    await expect(setUp({ wrap }).submit(insertsOrder)).rejects.toMatchObject({ code: "transaction-aborted" });
  });

  test("leaves a COMMIT in doubt that turns out committed: the answer is sent, nothing runs again", async () => {
    const { submit, starts, memory } = setUp({
      wrap: outcomes((outcome) => ({ kind: "in_doubt", value: outcome.value, error: new Error("reset") })),
    });
    expect(await submit(insertsOrder)).toMatchObject({ kind: "executed", stored: true });
    expect(starts()).toBe(1);
    expect(memory.rows("orders")).toHaveLength(1);
  });

  test("leaves a COMMIT in doubt that turns out rolled back: it runs again", async () => {
    const doubt = (outcome: TransactionOutcome<unknown>) =>
      ({ kind: "in_doubt", value: outcome.value, error: new Error("reset") }) as const;
    const { submitThrough, starts, memory } = setUp({
      wrap: (support) => ({ ...support, run: failFirst(support, doubt) }),
    });
    expect(await submitThrough(insertsOrder)).toMatchObject({ result: { kind: "executed", stored: true } });
    expect(starts()).toBe(2);
    expect(memory.rows("orders")).toHaveLength(1);
  });

  test("leaves a COMMIT in doubt that cannot be resolved: the caller gets commit_in_doubt", async () => {
    const { submit } = setUp({
      wrap: (support) => ({
        ...outcomes((outcome) => ({ kind: "in_doubt", value: outcome.value, error: new Error("reset") }))(
          support,
        ),
        resolve: async () => "in_doubt",
      }),
    });
    expect(await submit(insertsOrder)).toEqual({ kind: "commit_in_doubt", retryAfterMs: 2_000 });
  });

  test("was committed by the handler itself: unknown, and never run again", async () => {
    const changed = (outcome: TransactionOutcome<unknown>) =>
      ({ kind: "changed", value: outcome.value }) as const;
    const { submit, starts } = setUp({
      wrap: (support) => ({ ...support, run: failFirst(support, changed) }),
    });
    expect(await submit(insertsOrder)).toMatchObject({ kind: "unknown", retryAfterMs: null });
    expect(await submit(insertsOrder)).toMatchObject({ kind: "unknown" });
    expect(starts()).toBe(1);
  });

  test.each<readonly [string, Work<MemoryTransaction, "transaction">]>([
    ["threw", () => Promise.reject(Object.assign(new Error("conflict"), { code: "40001" }))],
    ["answered 503", async () => answer(503)],
    [
      "declined to store",
      async ({ attempt }) => {
        attempt.release();
        return answer(400);
      },
    ],
  ])("was committed by a handler that then %s: unknown, and never run again", async (_what, work) => {
    const { submitThrough, starts, events } = setUp({ wrap: endedByHandler });
    expect(await submitThrough(work)).toMatchObject({ result: { kind: "unknown", retryAfterMs: null } });
    expect(await submitThrough(work)).toMatchObject({ result: { kind: "unknown" } });
    expect(starts()).toBe(1);
    expect(events.map((event) => event.type)).toContain("transaction_changed");
  });

  test("was committed by the handler itself while the store fails: recorded as soon as it is back", async () => {
    const changed = (outcome: TransactionOutcome<unknown>) =>
      ({ kind: "changed", value: outcome.value }) as const;
    let failures = 3;
    const { submitThrough, starts } = setUp({
      wrap: (support) => ({ ...support, run: failFirst(support, changed) }),
      store: (store) => ({
        ...store,
        recordLostTransaction: async (...given) => {
          failures -= 1;
          if (failures === 1) await store.recordLostTransaction(...given);
          if (failures > 0) throw new StoreError("in_doubt");
          return store.recordLostTransaction(...given);
        },
      }),
    });
    expect(await submitThrough(insertsOrder)).toMatchObject({ result: { kind: "unknown" } });
    expect(await submitThrough(insertsOrder)).toMatchObject({ result: { kind: "unknown" } });
    expect(starts()).toBe(1);
  });

  test("was committed by the handler itself and the store stays away: in doubt, not 'nothing happened'", async () => {
    const { submitThrough } = setUp({
      wrap: endedByHandler,
      store: (store) => ({
        ...store,
        recordLostTransaction: async () => {
          throw new StoreError("not_sent");
        },
      }),
    });
    const seen = await submitThrough(async () => answer(503));
    expect(seen).toMatchObject({ result: { kind: "commit_in_doubt" } });
  });

  test("leaves a COMMIT in doubt and is then gone: in doubt, not 'nothing happened'", async () => {
    const { submit, starts } = setUp({
      wrap: (support) => ({
        ...outcomes((outcome) => ({ kind: "in_doubt", value: outcome.value, error: new Error("reset") }))(
          support,
        ),
        resolve: async () => {
          throw new StoreError("not_sent");
        },
      }),
    });
    expect(await submit(insertsOrder)).toMatchObject({ kind: "commit_in_doubt" });
    expect(starts()).toBe(1);
  });

  test("cannot be reached: no business code runs", async () => {
    const { submit, starts } = setUp({
      wrap: (support) => ({
        ...support,
        run: async () => {
          throw new StoreError("not_sent");
        },
      }),
    });
    await expect(submit(insertsOrder)).rejects.toBeInstanceOf(StoreError);
    expect(starts()).toBe(0);
  });
});
