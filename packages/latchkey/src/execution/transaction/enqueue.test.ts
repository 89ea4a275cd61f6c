import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../../test/support/manual-ports.ts";
import { type Codec, type CodecContext, identityCodec } from "../../codec.ts";
import { downstreamKey } from "../../effects/downstream-key.ts";
import type { EffectOptions } from "../../effects/effect.ts";
import { createLatchkey } from "../../latchkey.ts";
import type { Answer } from "../../operations/answer.ts";
import type { EnqueuingAttempt, HandlerContext, Submission } from "../../operations/attempt.ts";
import type { OperationOptions } from "../../operations/operation.ts";
import type { OwnedOperationOptions } from "../../operations/owned-operation.ts";
import type { RunAnswer, StepAttempt } from "../../operations/owned-work.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import type { OutboxEffect } from "../../stores/outbox.ts";
import type { Store } from "../../stores/store.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";
import type { FaultPlan } from "../../testing/faulty-store/fault.ts";
import { faultyStore } from "../../testing/faulty-store.ts";
import { leaseRescuer } from "../../workers/lease-rescuer.ts";

type Tx = MemoryTransaction;
type Context = HandlerContext<Tx, "transaction">;
type Notice = { readonly to: string };

const submission: Submission = {
  key: { tenant: "t", scope: "op", key: "k" },
  fingerprint: { version: 1, digest: new Uint8Array([1]) },
  principal: null,
};
const request = { tenant: "t", key: "k", input: {} };
const leaseMs = 3_000;

function answer(status = 201): Answer {
  return { status, headers: [], body: new Uint8Array(0), omitted: null };
}

interface Setting {
  readonly options?: OperationOptions<"transaction">;
  readonly codec?: Codec;
  readonly wrap?: (store: Store<Tx>) => Store<Tx>;
  readonly effect?: Partial<EffectOptions<Notice, object>>;
}

function setUp({ options = {}, codec = identityCodec, wrap = (store) => store, effect = {} }: Setting = {}) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const events: LatchkeyEvent[] = [];
  const hints: string[] = [];
  const makeProcess = (store: Store<Tx>) => {
    const latchkey = createLatchkey<Tx>({
      store,
      ports,
      codec,
      strict: true,
      circuitBreaker: false,
      onEvent: (event) => events.push(event),
    });
    latchkey.runtime.hints.listen((hint) => hints.push(hint));
    const notify = latchkey.effect<Notice, object>("notify", {
      deduplication: "provider",
      dedupeWindowMs: 60_000,
      execute: async () => ({}),
      ...effect,
    });
    const inSteps = (run: (attempt: StepAttempt<Tx>) => Promise<RunAnswer>, more: LeaseOptions = {}) =>
      latchkey.operation("steps", {
        execution: "lease",
        leaseEnd: "resume",
        leaseMs,
        version: "1",
        run: async (_: object, attempt) => run(attempt),
        ...more,
      });
    return { latchkey, notify, inSteps };
  };
  const process = makeProcess(wrap(memory));
  const operation = process.latchkey.operation("op", options);
  const submit = (work: (context: Context) => Promise<Answer>) =>
    process.latchkey.execute(operation, submission, work);
  const outbox = async (): Promise<readonly OutboxEffect[]> => {
    const filter = { state: "pending", effect: null, tenant: null, limit: 2_000, after: null } as const;
    return (await memory.outbox?.list(filter)) ?? [];
  };
  /** Runs `task` while time advances. */
  const inTime = async <T>(task: Promise<T>, ms = 30_000): Promise<T> => {
    task.catch(() => {});
    await ports.clock.advance(ms);
    return task;
  };
  return { ports, memory, events, hints, makeProcess, ...process, operation, submit, outbox, inTime };
}

type LeaseOptions = Partial<OwnedOperationOptions<object, Tx, "lease">>;

function conflict(): Error {
  return Object.assign(new Error("conflict"), { code: "40001" });
}

const textOf = (bytes: Uint8Array) => Buffer.from(bytes).toString("utf8");
/** Its lease ends during every attempt, because it is never renewed. */
const frozen = (store: Store<Tx>): Store<Tx> => ({ ...store, renew: () => new Promise<boolean>(() => {}) });

describe("in a transaction", () => {
  test("an effect is in the outbox with all that its delivery needs, and its hint is sent", async () => {
    const { submit, notify, outbox, hints } = setUp();
    const given: unknown[] = [];
    const result = await submit(async ({ tx, attempt }) => {
      await tx.insert("orders", {});
      given.push(attempt.enqueue(notify, { to: "a" }, { aggregate: "order-1", delayMs: 5 }));
      given.push(attempt.enqueue(notify, { to: "b" }));
      expect(hints, "not before the commit").toEqual([]);
      return answer();
    });
    if (result.kind !== "executed") throw new Error("unreachable");
    const { recordId } = result;
    const rows = await outbox();
    const place = { recordId, step: "", effect: "notify", generation: 0 };
    expect(rows).toMatchObject([
      { tenant: "t", scope: "op", key: "k", operation: "op", ...place, index: 0, aggregate: "order-1" },
      { ...place, index: 1, aggregate: null, ordered: false, state: "pending", sends: 0 },
    ]);
    expect(rows.map(({ input }) => textOf(input))).toEqual(['{"to":"a"}', '{"to":"b"}']);
    expect(rows.map(({ fingerprint }) => [...fingerprint])).toEqual([[1], [1]]);
    const keys = [0, 1].map((index) => downstreamKey({ ...place, index }));
    expect(given).toEqual(rows.map(({ id }, index) => ({ id, key: keys[index] })));
    expect(rows.map(({ downstreamKey: key }) => key)).toEqual(keys);
    expect(hints).toEqual(["effects"]);
  });

  test("it is due after its delay", async () => {
    const { submit, notify, memory, ports } = setUp();
    await submit(async ({ attempt }) => {
      attempt.enqueue(notify, { to: "a" }, { delayMs: 100 });
      return answer();
    });
    const claim = async () =>
      (await memory.outbox?.claim([{ effect: "notify", limit: 5 }], "t", 1_000))?.length;
    await ports.clock.advance(99);
    expect(await claim()).toBe(0);
    await ports.clock.advance(1);
    expect(await claim()).toBe(1);
  });

  test("its input is a copy from the time of enqueueing", async () => {
    const { submit, notify, outbox } = setUp();
    const input = { to: "a" };
    await submit(async ({ attempt }) => {
      attempt.enqueue(notify, input);
      input.to = "b";
      return answer();
    });
    expect(textOf((await outbox())[0]?.input as Uint8Array)).toBe('{"to":"a"}');
  });

  test("enqueueing counts as use of tx: a 2xx that does nothing else is not an error", async () => {
    const { submit, notify, outbox, events } = setUp();
    const result = await submit(async ({ attempt }) => {
      attempt.enqueue(notify, { to: "a" });
      return answer();
    });
    expect(result).toMatchObject({ kind: "executed", stored: true });
    expect(await outbox()).toHaveLength(1);
    expect(events.map(({ type }) => type)).not.toContain("tx_unused");
    await expect(setUp().submit(async () => answer())).rejects.toMatchObject({ code: "tx-unused" });
  });

  test("it passes the codec, with its context", async () => {
    const seen: CodecContext[] = [];
    const codec: Codec = {
      encode: (plain, context) => {
        seen.push(context);
        return Buffer.from(plain).reverse();
      },
      decode: (stored) => Buffer.from(stored).reverse(),
    };
    const { submit, notify, outbox } = setUp({ codec });
    await submit(async ({ attempt }) => {
      attempt.enqueue(notify, { to: "a" });
      return answer();
    });
    const [row] = await outbox();
    expect(textOf(row?.input as Uint8Array)).toBe('}"a":"ot"{');
    const { recordId } = row as OutboxEffect;
    const context = { ...submission.key, recordId, fingerprint: submission.fingerprint.digest };
    expect(seen).toContainEqual({ ...context, part: `effect-input:notify:${row?.id}` });
  });

  test("an effect that the codec refuses leaves nothing", async () => {
    const codec: Codec = {
      ...identityCodec,
      encode: (plain, { part }) => {
        if (part.startsWith("effect-input")) throw new Error("no key");
        return plain;
      },
    };
    const { submit, notify, outbox, memory, hints } = setUp({ codec });
    const work = async ({ tx, attempt }: Context) => {
      await tx.insert("orders", {});
      attempt.enqueue(notify, { to: "a" });
      return answer();
    };
    await expect(submit(work)).rejects.toThrow("no key");
    expect([await outbox(), memory.rows("orders"), hints]).toEqual([[], [], []]);
  });

  test("a transaction that runs again enqueues once", async () => {
    const { submit, notify, outbox, inTime, hints } = setUp();
    let runs = 0;
    await inTime(
      submit(async ({ attempt }) => {
        runs += 1;
        attempt.enqueue(notify, { to: `${runs}` });
        if (runs < 3) throw conflict();
        return answer();
      }),
    );
    expect((await outbox()).map(({ input, index }) => [textOf(input), index])).toEqual([['{"to":"3"}', 0]]);
    expect(hints).toEqual(["effects"]);
  });

  test.each<readonly [string, (context: Context) => Promise<Answer>]>([
    ["threw", () => Promise.reject(new Error("no"))],
    [
      "was released",
      async ({ attempt }) => {
        attempt.release();
        return answer(422);
      },
    ],
    ["answered 429", async () => answer(429)],
    ["answered 503", async () => answer(503)],
  ])("an attempt that %s enqueues nothing", async (_, end) => {
    const { submit, notify, outbox, hints } = setUp();
    const work = async (context: Context) => {
      context.attempt.enqueue(notify, { to: "a" });
      return end(context);
    };
    await submit(work).catch(() => {});
    expect([await outbox(), hints]).toEqual([[], []]);
  });

  test("a 5xx whose answer is stored has no effects, like its other writes", async () => {
    const { submit, notify, outbox, memory, hints } = setUp({ options: { serverErrors: "store" } });
    const work = async ({ tx, attempt }: Context) => {
      await tx.insert("orders", {});
      attempt.enqueue(notify, { to: "a" });
      return answer(500);
    };
    expect(await submit(work)).toMatchObject({ kind: "executed", stored: true });
    expect([await outbox(), memory.rows("orders"), hints]).toEqual([[], [], []]);
  });

  test("an attempt that loses the key to another leaves none of its effects", async () => {
    const { submit, notify, outbox, memory, inTime, hints } = setUp();
    const life = { ...submission.key, id: "other", operation: "op", principal: null } as const;
    const fence = { attempt: 1, token: "f".repeat(32) };
    const terms = { leaseMs, leaseEnd: "reconcile", attemptsMax: 1, abandonAfterMs: 60_000 } as const;
    const losing = submit(async ({ attempt }) => {
      attempt.enqueue(notify, { to: "a" });
      await memory.create({ ...life, fingerprint: submission.fingerprint, fence }, null, terms);
      return answer();
    });
    const result = await inTime(losing, 1_000);
    expect(result).toMatchObject({ kind: "in_progress", recordId: "other" });
    expect([await outbox(), hints]).toEqual([[], []]);
  });

  test.each(["reply_lost", "request_lost"] as const)(
    "a COMMIT in doubt (%s) enqueues once",
    async (fault) => {
      let faults = 1;
      const plan: FaultPlan = ({ port }) => (port === "commit" && faults-- > 0 ? fault : "proceed");
      const { submit, notify, outbox, inTime, hints } = setUp({
        wrap: (store) => faultyStore(store, plan).store,
      });
      let runs = 0;
      const result = await inTime(
        submit(async ({ attempt }) => {
          runs += 1;
          attempt.enqueue(notify, { to: "a" });
          return answer();
        }),
      );
      expect(result).toMatchObject({ kind: "executed", stored: true });
      expect(runs).toBe(fault === "reply_lost" ? 1 : 2);
      expect(await outbox()).toHaveLength(1);
      expect(hints).toEqual(["effects"]);
    },
  );

  test("nothing is enqueued after the answer", async () => {
    const { submit, notify, outbox } = setUp();
    let late: EnqueuingAttempt | null = null;
    await submit(async ({ tx, attempt }) => {
      await tx.insert("orders", {});
      late = attempt;
      return answer();
    });
    expect(() => late?.enqueue(notify, { to: "a" })).toThrow("after its transaction's work was over");
    expect(await outbox()).toEqual([]);
  });

  test("work that an operation owns can enqueue, too", async () => {
    const { latchkey, notify, outbox, hints } = setUp();
    const owned = latchkey.operation("owned", {
      version: "1",
      run: async (_: object, attempt) => ({ body: attempt.enqueue(notify, { to: "a" }) }),
    });
    const result = await latchkey.run(owned, request);
    const [row] = await outbox();
    expect(result).toMatchObject({ kind: "executed", value: { id: row?.id, key: row?.downstreamKey } });
    expect(hints).toEqual(["effects"]);
  });
});

describe("a mistake", () => {
  const ordered = { effect: { delivery: { ordered: true } } };
  const refused: readonly (readonly [
    string,
    Setting,
    (attempt: EnqueuingAttempt, effect: Notify) => unknown,
  ])[] = [
    ["an input without JSON form", {}, (attempt, effect) => attempt.enqueue(effect, { to: 1n } as never)],
    ["a negative delay", {}, (attempt, effect) => attempt.enqueue(effect, { to: "a" }, { delayMs: -1 })],
    ["a broken delay", {}, (attempt, effect) => attempt.enqueue(effect, { to: "a" }, { delayMs: 0.5 })],
    ["a delay of years", {}, (attempt, effect) => attempt.enqueue(effect, { to: "a" }, { delayMs: 4e10 })],
    ["an empty aggregate", {}, (attempt, effect) => attempt.enqueue(effect, { to: "a" }, { aggregate: "" })],
    [
      "NUL in an aggregate",
      {},
      (attempt, effect) => attempt.enqueue(effect, { to: "" }, { aggregate: "\0" }),
    ],
    [
      "an aggregate that is too long",
      {},
      (attempt, effect) => attempt.enqueue(effect, { to: "a" }, { aggregate: "a".repeat(201) }),
    ],
    ["order without an aggregate", ordered, (attempt, effect) => attempt.enqueue(effect, { to: "a" })],
    ["an effect of another latchkey", {}, (attempt) => attempt.enqueue(setUp().notify, { to: "a" })],
  ];
  type Notify = ReturnType<typeof setUp>["notify"];

  test.each(refused)("%s is a TypeError, and nothing is enqueued", async (_, setting, enqueue) => {
    const { submit, notify, outbox } = setUp(setting);
    const work = async ({ attempt }: Context) => {
      enqueue(attempt, notify);
      return answer();
    };
    await expect(submit(work)).rejects.toThrow(TypeError);
    expect(await outbox()).toEqual([]);
  });

  test("one effect too many is a TypeError", async () => {
    const { submit, notify, outbox } = setUp();
    const all =
      (count: number) =>
      async ({ attempt }: Context) => {
        for (let index = 0; index < count; index++) attempt.enqueue(notify, { to: "a" });
        return answer();
      };
    await expect(submit(all(1_001))).rejects.toThrow("at most 1000 effects");
    await submit(all(1_000));
    expect(await outbox()).toHaveLength(1_000);
  });

  test("a route's handler under a lease cannot enqueue", async () => {
    const { latchkey, notify, outbox } = setUp();
    const leased = latchkey.operation("leased", { execution: "lease" });
    const done = latchkey.execute(leased, submission, async ({ attempt }) => {
      (attempt as EnqueuingAttempt).enqueue(notify, { to: "a" });
      return answer();
    });
    await expect(done).rejects.toThrow("outside a transaction");
    expect(await outbox()).toEqual([]);
  });
});

describe("in a phase", () => {
  test("effects commit with it, and a step's own index counts them", async () => {
    const { latchkey, inSteps, notify, outbox, hints } = setUp();
    const operation = inSteps(async (attempt) => {
      await attempt.phase("one", async () => {
        attempt.enqueue(notify, { to: "a" });
        attempt.enqueue(notify, { to: "b" });
      });
      expect(await outbox()).toHaveLength(2);
      expect(hints).toEqual(["effects"]);
      await attempt.phase("two", async () => "nothing");
      return attempt.finish("three", async () => {
        attempt.enqueue(notify, { to: "c" });
        return { status: 201 };
      });
    });
    const result = await latchkey.run(operation, request);
    if (result.kind !== "executed") throw new Error("unreachable");
    const rows = await outbox();
    expect(rows.map(({ step, index, input }) => [step, index, textOf(input)])).toEqual([
      ["one", 0, '{"to":"a"}'],
      ["one", 1, '{"to":"b"}'],
      ["three", 0, '{"to":"c"}'],
    ]);
    for (const { step, index, downstreamKey: key } of rows) {
      const place = { recordId: result.recordId, step, effect: "notify", index, generation: 0 };
      expect(key).toBe(downstreamKey(place));
    }
    expect(hints).toEqual(["effects", "effects"]);
  });

  test("a phase that runs again, or fails, enqueues once, or nothing", async () => {
    const { latchkey, inSteps, notify, outbox, inTime, hints } = setUp();
    let runs = 0;
    const operation = inSteps(async (attempt) => {
      await attempt.phase("again", async () => {
        runs += 1;
        attempt.enqueue(notify, { to: `${runs}` });
        if (runs < 3) throw conflict();
      });
      const failing = attempt.phase("failing", async () => {
        attempt.enqueue(notify, { to: "never" });
        throw new Error("no");
      });
      await failing.catch(() => {});
      return attempt.finish("unkept", async () => {
        attempt.enqueue(notify, { to: "never" });
        return { status: 503 };
      });
    });
    await inTime(latchkey.run(operation, request));
    expect((await outbox()).map(({ input }) => textOf(input))).toEqual(['{"to":"3"}']);
    expect(hints).toEqual(["effects"]);
  });

  test("a resumed attempt does not repeat the effects of a finished phase", async () => {
    const { makeProcess, memory, outbox, ports } = setUp();
    const dying = makeProcess(frozen(memory));
    const work = (process: typeof dying, last: () => Promise<RunAnswer>) =>
      process.inSteps(async (attempt) => {
        await attempt.phase("one", async () => attempt.enqueue(process.notify, { to: "a" }));
        return last();
      });
    void dying.latchkey.run(
      work(dying, () => new Promise<never>(() => {})),
      request,
    );
    await ports.clock.advance(leaseMs);
    expect(await outbox()).toHaveLength(1);
    const next = makeProcess(memory);
    const result = await next.latchkey.run(
      work(next, async () => ({ status: 201 })),
      request,
    );
    expect(result).toMatchObject({ kind: "executed", status: 201 });
    expect(await outbox()).toHaveLength(1);
  });

  test("an owner that was fenced out leaves none of its effects", async () => {
    const { makeProcess, memory, outbox, ports, hints } = setUp();
    const dying = makeProcess(frozen(memory));
    const thaw = Promise.withResolvers<void>();
    const slow = dying.inSteps(async (attempt) => {
      await attempt.phase("one", async () => {
        attempt.enqueue(dying.notify, { to: "first" });
        await thaw.promise;
      });
      return {};
    });
    const late = dying.latchkey.run(slow, request).catch(() => {});
    await ports.clock.advance(leaseMs);
    const next = makeProcess(memory);
    const quick = next.inSteps(async (attempt) => {
      await attempt.phase("one", async () => attempt.enqueue(next.notify, { to: "second" }));
      return {};
    });
    await next.latchkey.run(quick, request);
    thaw.resolve();
    await ports.clock.advance(60_000);
    await late;
    expect((await outbox()).map(({ input }) => textOf(input))).toEqual(['{"to":"second"}']);
    expect(hints).toEqual(["effects"]);
  });

  test.each(["reply_lost", "request_lost"] as const)(
    "a COMMIT in doubt (%s) enqueues once",
    async (fault) => {
      let faults = 1;
      const plan: FaultPlan = ({ port }) => (port === "commitPhase" && faults-- > 0 ? fault : "proceed");
      const { latchkey, inSteps, notify, outbox, inTime, hints } = setUp({
        wrap: (store) => faultyStore(store, plan).store,
      });
      const operation = inSteps(async (attempt) => {
        await attempt.phase("one", async () => attempt.enqueue(notify, { to: "a" }));
        return {};
      });
      expect(await inTime(latchkey.run(operation, request))).toMatchObject({ kind: "executed" });
      expect(await outbox()).toHaveLength(1);
      expect(hints).toEqual(["effects"]);
    },
  );

  test.each<
    readonly [string, (attempt: StepAttempt<Tx>, enqueue: () => unknown) => Promise<unknown>, string]
  >([
    ["before one", async (_, enqueue) => enqueue(), "outside a transaction"],
    [
      "between two",
      async (attempt, enqueue) => {
        await attempt.phase("one", async () => 1);
        enqueue();
      },
      "after its transaction's work was over",
    ],
  ])("outside a phase, %s, it is a TypeError", async (_, act, message) => {
    const { latchkey, inSteps, notify, outbox, inTime } = setUp();
    const operation = inSteps(async (attempt) => {
      await act(attempt, () => attempt.enqueue(notify, { to: "a" }));
      return {};
    });
    await expect(inTime(latchkey.run(operation, request))).rejects.toThrow(message);
    expect(await outbox()).toEqual([]);
  });

  test("work that outlives its phase does not enqueue into the next one", async () => {
    const { latchkey, inSteps, notify, outbox, inTime } = setUp();
    const late = Promise.withResolvers<void>();
    const errors: unknown[] = [];
    const operation = inSteps(
      async (attempt) => {
        const stuck = async () => {
          await late.promise;
          try {
            attempt.enqueue(notify, { to: "stray" });
          } catch (error) {
            errors.push(error);
          }
        };
        await attempt.phase("one", stuck).catch(() => {});
        await attempt.phase("two", async () => {
          late.resolve();
          await new Promise((resolve) => setImmediate(resolve));
          attempt.enqueue(notify, { to: "own" });
        });
        return {};
      },
      { transactionLimitMs: 1_000 },
    );
    await inTime(latchkey.run(operation, request));
    expect((await outbox()).map(({ step, input }) => [step, textOf(input)])).toEqual([
      ["two", '{"to":"own"}'],
    ]);
    expect(errors).toMatchObject([{ name: "TypeError" }]);
  });

  test("an operation that runs inside a phase enqueues for itself", async () => {
    const { latchkey, inSteps, notify, outbox } = setUp();
    const inner = latchkey.operation("inner", {
      execution: "lease",
      version: "1",
      run: async (_: object, attempt) => {
        await attempt.phase("inner", async () => attempt.enqueue(notify, { to: "inner" }));
        return {};
      },
    });
    const operation = inSteps(async (attempt) => {
      await attempt.phase("outer", async () => {
        attempt.enqueue(notify, { to: "outer" });
        await latchkey.run(inner, { ...request, key: "k2" });
      });
      return {};
    });
    await latchkey.run(operation, request);
    const rows = (await outbox()).map(({ operation: of, step, input }) => [of, step, textOf(input)]);
    expect(rows.sort()).toEqual([
      ["inner", "inner", '{"to":"inner"}'],
      ["steps", "outer", '{"to":"outer"}'],
    ]);
  });

  test("an operation that runs inside another's phase does not enqueue there", async () => {
    const { latchkey, inSteps, notify, outbox } = setUp();
    const inner = latchkey.operation("inner", {
      execution: "lease",
      version: "1",
      run: async (_: object, attempt) => ({ body: attempt.enqueue(notify, { to: "nowhere" }) }),
    });
    const operation = inSteps(async (attempt) => {
      await attempt.phase("outer", async () => {
        await latchkey.run(inner, { ...request, key: "k2" });
      });
      return {};
    });
    await expect(latchkey.run(operation, request)).rejects.toThrow("outside a transaction");
    expect(await outbox()).toEqual([]);
  });

  test("a rescued attempt enqueues in this process's worker", async () => {
    const { makeProcess, memory, outbox, ports } = setUp();
    const dying = makeProcess(frozen(memory));
    const run = (process: typeof dying, before: () => Promise<unknown>) =>
      process.inSteps(async (attempt) => {
        await before();
        await attempt.phase("one", async () => attempt.enqueue(process.notify, { to: "a" }));
        return {};
      });
    void dying.latchkey.run(
      run(dying, () => new Promise<never>(() => {})),
      request,
    );
    await ports.clock.advance(leaseMs);
    const next = makeProcess(memory);
    run(next, async () => {});
    await leaseRescuer(next.latchkey).runOnce();
    expect(await outbox()).toHaveLength(1);
  });
});
