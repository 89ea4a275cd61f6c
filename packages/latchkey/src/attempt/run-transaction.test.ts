import { AsyncResource } from "node:async_hooks";
import { describe, expect, test } from "vitest";
import type { RecordKey } from "../engine/record.ts";
import { LatchkeyError, StoreError } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import type { OperationOptions } from "../operation.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type {
  OpenTransaction,
  Store,
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../stores/store.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { manualPorts } from "../testing/manual-ports.ts";
import type { Answer } from "./answer.ts";
import type { Submission, Work } from "./attempt.ts";

const key: RecordKey = { tenant: "t", scope: "op", key: "k" };
const submission: Submission = {
  key,
  fingerprint: { version: 1, digest: new Uint8Array([1]) },
  principal: null,
};

function answer(status: number, text = ""): Answer {
  return { status, headers: [["content-type", "text/plain"]], body: Buffer.from(text), omitted: null };
}

interface Setup {
  readonly options?: OperationOptions<"transaction">;
  readonly strict?: boolean;
  readonly wrap?: (support: TransactionSupport<MemoryTransaction>) => TransactionSupport<MemoryTransaction>;
  readonly store?: (store: Store<MemoryTransaction>) => Store<MemoryTransaction>;
}

function setUp({
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

const insertsOrder: Work<MemoryTransaction, "transaction"> = async ({ tx }) => {
  await tx.insert("orders", { amount: 1 });
  return answer(201, "created");
};

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

describe("an answer", () => {
  test("is stored with the writes and replayed without running again", async () => {
    const { submit, memory, starts } = setUp();
    const first = await submit(insertsOrder);
    const second = await submit(insertsOrder);
    expect(first).toMatchObject({ kind: "executed", stored: true });
    expect(second).toMatchObject({ kind: "replay", answer: { status: 201 } });
    if (first.kind !== "executed" || second.kind !== "replay") throw new Error("unreachable");
    expect(second.recordId).toBe(first.recordId);
    expect(Buffer.from(second.answer.body).toString()).toBe("created");
    expect(memory.rows("orders")).toHaveLength(1);
    expect(starts()).toBe(1);
  });

  test.each([408, 425, 429, 500, 503])(
    "of %i is sent, not stored, and its writes are gone",
    async (status) => {
      const { submit, memory, starts } = setUp();
      const work: Work<MemoryTransaction, "transaction"> = async ({ tx }) => {
        await tx.insert("orders", {});
        return answer(status);
      };
      expect(await submit(work)).toMatchObject({ kind: "executed", stored: false, answer: { status } });
      expect(memory.rows("orders")).toHaveLength(0);
      await submit(work);
      expect(starts()).toBe(2);
    },
  );

  test("of 4xx commits its writes and is stored", async () => {
    const { submit, memory } = setUp();
    const work: Work<MemoryTransaction, "transaction"> = async ({ tx }) => {
      await tx.insert("refusals", {});
      return answer(402);
    };
    expect(await submit(work)).toMatchObject({ kind: "executed", stored: true });
    expect(await submit(work)).toMatchObject({ kind: "replay", answer: { status: 402 } });
    expect(memory.rows("refusals")).toHaveLength(1);
  });

  test("of 5xx is kept without its writes under serverErrors: store", async () => {
    const { submit, memory, starts } = setUp({ options: { serverErrors: "store" } });
    const work: Work<MemoryTransaction, "transaction"> = async ({ tx }) => {
      await tx.insert("orders", {});
      return answer(500, "broken");
    };
    expect(await submit(work)).toMatchObject({ kind: "executed", stored: true });
    expect(await submit(work)).toMatchObject({ kind: "replay", answer: { status: 500 } });
    expect(memory.rows("orders")).toHaveLength(0);
    expect(starts()).toBe(1);
  });

  test("that the handler declines is rolled back and frees the key", async () => {
    const { submit, memory, starts } = setUp();
    const work: Work<MemoryTransaction, "transaction"> = async ({ tx, attempt }) => {
      await tx.insert("orders", {});
      attempt.release();
      return answer(400);
    };
    expect(await submit(work)).toMatchObject({ kind: "executed", stored: false });
    expect(memory.rows("orders")).toHaveLength(0);
    await submit(work);
    expect(starts()).toBe(2);
  });

  test("over the limit leaves a tombstone: first answer whole, replay without body, never run again", async () => {
    const { submit, starts } = setUp({ options: { answerLimitBytes: 3 } });
    expect(await submit(insertsOrder)).toMatchObject({
      kind: "executed",
      stored: true,
      answer: { omitted: null },
    });
    expect(await submit(insertsOrder)).toMatchObject({
      kind: "replay",
      answer: { status: 201, omitted: "too-large", body: new Uint8Array(0) },
    });
    expect(starts()).toBe(1);
  });
});

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

  test("that starts its own key again is refused", async () => {
    const { submit } = setUp();
    await expect(submit(async () => (await submit(insertsOrder)) as never)).rejects.toMatchObject({
      code: "nested-key",
    });
  });

  test("keeps its answer for as long as it says", async () => {
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
  ])("cannot keep its answer for a time that is %s", async (_what, retention) => {
    const { submit } = setUp();
    const failing = submit(async (context) => {
      context.attempt.retain(retention);
      return insertsOrder(context);
    });
    await expect(failing).rejects.toThrow("retain");
  });

  test("that is run again starts without what it had asked for before", async () => {
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

describe("duplicates", () => {
  test("of a running request are told so at once", async () => {
    const { submit } = setUp();
    const gate = Promise.withResolvers<void>();
    const first = submit(async (context) => {
      await gate.promise;
      return insertsOrder(context);
    });
    expect(await submit(insertsOrder)).toEqual({ kind: "in_progress", recordId: null, retryAfterMs: 1_000 });
    gate.resolve();
    expect(await first).toMatchObject({ kind: "executed" });
  });

  test("of a running request that reuses a forgotten key learn nothing of its earlier life", async () => {
    const { submit, ports } = setUp({ options: { retentionMs: 1_000, forgetAfterMs: 1_000 } });
    await submit(insertsOrder, { ...submission, principal: "alice" });
    await ports.clock.advance(1_000);
    const gate = Promise.withResolvers<void>();
    const first = submit(async (context) => {
      await gate.promise;
      return insertsOrder(context);
    });
    expect(await submit(insertsOrder)).toMatchObject({ kind: "in_progress", recordId: null });
    gate.resolve();
    expect(await first).toMatchObject({ kind: "executed" });
  });

  test("wait for the answer where the operation says so", async () => {
    const { submit, ports, starts } = setUp({ options: { waitMs: 2_000 } });
    const gate = Promise.withResolvers<void>();
    const first = submit(async (context) => {
      await gate.promise;
      return insertsOrder(context);
    });
    const second = submit(insertsOrder);
    await ports.clock.advance(500);
    gate.resolve();
    await first;
    await ports.clock.advance(500);
    expect(await second).toMatchObject({ kind: "replay" });
    expect(starts()).toBe(1);
  });

  test("that have waited long enough are told that it is still running", async () => {
    const { submit, ports } = setUp({ options: { waitMs: 2_000 } });
    const gate = Promise.withResolvers<Answer>();
    const first = submit(() => gate.promise);
    const second = submit(insertsOrder);
    await ports.clock.advance(2_000);
    expect(await second).toMatchObject({ kind: "in_progress" });
    gate.resolve(answer(500));
    await first;
  });

  test("with another fingerprint or principal are misuse and see nothing", async () => {
    const { submit, starts } = setUp();
    await submit(insertsOrder);
    const otherBody = { ...submission, fingerprint: { version: 1, digest: new Uint8Array([2]) } };
    expect(await submit(insertsOrder, otherBody)).toEqual({ kind: "key_misuse", because: "fingerprint" });
    const otherPrincipal = { ...submission, principal: "mallory" };
    expect(await submit(insertsOrder, otherPrincipal)).toEqual({ kind: "key_misuse", because: "principal" });
    expect(starts()).toBe(1);
  });

  test("of another tenant run on their own", async () => {
    const { submit, starts } = setUp();
    await submit(insertsOrder);
    expect(await submit(insertsOrder, { ...submission, key: { ...key, tenant: "u" } })).toMatchObject({
      kind: "executed",
    });
    expect(starts()).toBe(2);
  });

  test("past retention are refused until the key is forgotten, cleaner or not", async () => {
    const { submit, ports } = setUp({ options: { retentionMs: 1_000, forgetAfterMs: 2_000 } });
    await submit(insertsOrder);
    await ports.clock.advance(1_000);
    expect(await submit(insertsOrder)).toEqual({ kind: "expired" });
    await ports.clock.advance(1_000);
    expect(await submit(insertsOrder)).toMatchObject({ kind: "executed" });
    expect(await submit(insertsOrder)).toMatchObject({ kind: "replay" });
  });
});

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

  test("always refuses: the caller is told that the store is not available", async () => {
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

  test("leaves a COMMIT in doubt that cannot be settled: the caller is told so", async () => {
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

  test("was committed by the handler itself while the store fails: noted as soon as it is back", async () => {
    const changed = (outcome: TransactionOutcome<unknown>) =>
      ({ kind: "changed", value: outcome.value }) as const;
    let failures = 3;
    const { submitThrough, starts } = setUp({
      wrap: (support) => ({ ...support, run: failFirst(support, changed) }),
      store: (store) => ({
        ...store,
        loseTransaction: async (...given) => {
          failures -= 1;
          if (failures === 1) await store.loseTransaction(...given);
          if (failures > 0) throw new StoreError("in_doubt");
          return store.loseTransaction(...given);
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
        loseTransaction: async () => {
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

/** The lock is lost, as an advisory lock is after a failover: two attempts run at once. */
function unlocked(support: TransactionSupport<MemoryTransaction>): TransactionSupport<MemoryTransaction> {
  return {
    ...support,
    run: (request, work) => support.run(request, (open) => work({ ...open, exclusive: true })),
  };
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

describe("what is reported", () => {
  const typesOf = (events: readonly LatchkeyEvent[]) => events.map(({ type }) => type);

  test("a released answer: executed and released", async () => {
    const { submit, events } = setUp();
    await submit(async () => answer(503));
    expect(typesOf(events)).toEqual(["released", "executed"]);
  });

  test("a handler's error and an attempt that took too long", async () => {
    const { submit, events, ports } = setUp({ options: { transactionLimitMs: 1_000 } });
    const error = new Error("card declined");
    await expect(submit(() => Promise.reject(error))).rejects.toBe(error);
    expect(events).toMatchObject([{ type: "attempt_failed", error }]);
    const late = submit(() => new Promise<Answer>(() => {})).catch(() => {});
    await ports.clock.advance(1_000);
    await late;
    expect(events[1]).toMatchObject({ type: "attempt_failed", error: { code: "attempt-limit" } });
  });

  test("a dead lease that a request settles", async () => {
    const { submit, ports, memory, events } = setUp();
    const life = {
      ...submission,
      ...key,
      id: ports.random.uuid(0),
      operation: "op",
      fence: { attempt: 1, token: "f".repeat(32) },
    };
    const terms = { leaseMs: 1_000, leaseEnd: "rerun", attemptsMax: 5, abandonAfterMs: 10_000 } as const;
    await memory.create(life, null, terms);
    await ports.clock.advance(1_000);
    const seen = submit(insertsOrder);
    await ports.clock.advance(100);
    expect(await seen).toMatchObject({ kind: "unknown" });
    expect(typesOf(events)).toEqual(["lease_rescued", "unknown"]);
  });
});

type Run = TransactionSupport<MemoryTransaction>["run"];

/** Rolls the first `times` commits back in the store, and reports `change` of their outcome. */
function failFirst(
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

type WorkOf<T> = (open: OpenTransaction<MemoryTransaction>) => Promise<TransactionWork<T>>;

function rolledBack<T>(work: WorkOf<T>, onCommit?: () => void): WorkOf<T> {
  return async (open) => {
    const ended = await work(open);
    if (ended.end === "commit") onCommit?.();
    return { end: "rollback", value: ended.value };
  };
}

/** Runs `work` outside the present attempt's asynchronous context, as another request would be. */
const outside = new AsyncResource("another request");
