import { describe, expect, test } from "vitest";
import type { RecordKey } from "../engine/record.ts";
import { NotExecuted, StoreError } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import { leaseRescuer } from "../maintenance/lease-rescuer.ts";
import type { OperationOptions } from "../operation.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
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
const leaseMs = 3_000;
/** How long an owner that keeps its lease insists on writing its end. */
const patienceMs = 10_000;

function answer(status: number, text = ""): Answer {
  return { status, headers: [], body: Buffer.from(text), omitted: null };
}

type LeaseWork = Work<MemoryTransaction, "lease">;
const answers: LeaseWork = async () => answer(200, "done");

function setUp(
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

/** A handler that says when it has started and waits to be let go. */
function gated(result: Answer | Error = answer(200, "late")) {
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

describe("an answer", () => {
  test("is stored and replayed without running again", async () => {
    const { submit, starts } = setUp();
    const first = await submit(answers);
    const second = await submit(answers);
    expect(first).toMatchObject({ kind: "executed", stored: true });
    expect(second).toMatchObject({ kind: "replay", answer: { status: 200 } });
    expect(starts()).toBe(1);
  });

  test("of 5xx leaves the outcome unknown: nothing runs again", async () => {
    const { submit, starts } = setUp();
    expect(await submit(async () => answer(502))).toMatchObject({ kind: "executed", stored: false });
    expect(await submit(answers)).toMatchObject({ kind: "unknown" });
    expect(starts()).toBe(1);
  });

  test.each([408, 425, 429])("of %i frees the key", async (status) => {
    const { submit, starts } = setUp();
    expect(await submit(async () => answer(status))).toMatchObject({ kind: "executed", stored: false });
    expect(await submit(answers)).toMatchObject({ kind: "executed", stored: true });
    expect(starts()).toBe(2);
  });

  test("of 5xx is stored or released where the operation says so", async () => {
    const stored = setUp({ serverErrors: "store" });
    await stored.submit(async () => answer(500));
    expect(await stored.submit(answers)).toMatchObject({ kind: "replay", answer: { status: 500 } });
    const released = setUp({ serverErrors: "release" });
    await released.submit(async () => answer(500));
    expect(await released.submit(answers)).toMatchObject({ kind: "executed" });
  });
});

test("an answer that the codec cannot encode leaves the outcome unknown at once", async () => {
  const { ports, memory } = setUp();
  const codec = {
    encode: () => {
      throw new Error("no key for this tenant");
    },
    decode: (stored: Uint8Array) => stored,
  };
  const latchkey = createLatchkey<MemoryTransaction>({ store: memory, ports, codec });
  const operation = latchkey.operation("op", { execution: "lease" });
  const submit = () => latchkey.execute(operation, submission, answers);
  await expect(submit()).rejects.toThrow("no key");
  expect(await submit()).toMatchObject({ kind: "unknown" });
});

describe("a handler that throws", () => {
  test("leaves the outcome unknown, and its error reaches the caller", async () => {
    const { submit, starts } = setUp();
    await expect(submit(() => Promise.reject(new Error("socket hang up")))).rejects.toThrow("socket hang up");
    expect(await submit(answers)).toMatchObject({ kind: "unknown" });
    expect(starts()).toBe(1);
  });

  test.each<readonly [string, () => unknown]>([
    [
      "throws",
      () => {
        throw new TypeError("cannot read properties of undefined");
      },
    ],
    ["is a promise", async () => false],
  ])(
    "is in doubt where the operation's own judgement %s; its error reaches the caller",
    async (_what, judge) => {
      const { submit } = setUp({ isNotExecuted: judge as () => boolean });
      await expect(submit(() => Promise.reject(new Error("socket hang up")))).rejects.toThrow(
        "socket hang up",
      );
      expect(await submit(answers)).toMatchObject({ kind: "unknown" });
    },
  );

  test("and has lost its lease does not answer with its error, whatever the record says by now", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, submitElsewhere, ports, starts } = setUp({ leaseEnd: "rerun" }, () => frozen);
    const { work, started, release } = gated(new NotExecuted());
    const first = submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    await submitElsewhere(async () => answer(429));
    release();
    expect(await first).toMatchObject({ kind: "commit_in_doubt" });
    expect(starts()).toBe(2);
  });

  test("NotExecuted, or an error the operation knows, frees the key", async () => {
    const { submit } = setUp({ isNotExecuted: (error) => error instanceof RangeError });
    await expect(submit(() => Promise.reject(new NotExecuted()))).rejects.toBeInstanceOf(NotExecuted);
    await expect(submit(() => Promise.reject(new RangeError("no")))).rejects.toThrow("no");
    expect(await submit(answers)).toMatchObject({ kind: "executed" });
  });
});

describe("a lease", () => {
  test("is renewed for as long as the handler runs", async () => {
    const { submit, submitElsewhere, ports } = setUp();
    const { work, started, release } = gated();
    const first = submit(work);
    const signal = await started;
    await ports.clock.advance(leaseMs * 10);
    expect(signal.aborted).toBe(false);
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress" });
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
  });

  test("that cannot be renewed stops its owner before another could take it", async () => {
    const { submit, submitElsewhere, ports, events } = setUp({}, () => ({
      renew: async () => {
        throw new StoreError("not_sent");
      },
    }));
    const { work, started, release } = gated();
    const first = submit(work);
    const signal = await started;
    await ports.clock.advance(leaseMs - 1);
    expect(signal.aborted).toBe(true);
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress" });
    expect(events).toContainEqual(expect.objectContaining({ type: "lease_lost" }));
    await ports.clock.advance(1);
    const seen = await Promise.race([submitElsewhere(answers), ports.clock.advance(100)]);
    expect(seen).toMatchObject({ kind: "unknown" });
    release();
    await first;
  });

  test("whose renewal throws at once is one that cannot be renewed", async () => {
    const { submit, ports } = setUp({}, () => ({
      renew: () => {
        throw new TypeError("not a promise");
      },
    }));
    const { work, started, release } = gated();
    const first = submit(work);
    const signal = await started;
    await ports.clock.advance(leaseMs - 1);
    expect(signal.aborted).toBe(true);
    release();
    await first;
  });

  test("that has ended means unknown under reconcile; the frozen owner settles its own, since nobody has gone on", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, submitElsewhere, memory, ports, starts, other } = setUp({}, () => frozen);
    const { work, started, release } = gated();
    const first = submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    expect(await leaseRescuer(other).runOnce()).toEqual({ found: 1, rescued: 1, resumed: 0 });
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "unknown" });
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "replay" });
    expect(starts()).toBe(1);
    expect(await memory.settlement.audit(key)).toMatchObject([{ actor: "owner", event: "settle_completed" }]);
  });

  test("that has ended and was settled by others is not the frozen owner's any more", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, ports, other } = setUp({}, () => frozen);
    const { work, started, release } = gated();
    const first = submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    await leaseRescuer(other).runOnce();
    const by = { operator: "ada", reason: "asked the bank" };
    const settled = { failed: { status: 402, body: { no: true } } };
    expect(await other.settle({ tenant: "t", operation: "op", key: "k" }, settled, by)).toMatchObject({
      kind: "settled",
    });
    release();
    expect(await first).toMatchObject({ kind: "replay", answer: { status: 402 } });
  });

  test("that has ended is taken over under rerun; the frozen owner answers with the winner's answer", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, submitElsewhere, ports, starts, other } = setUp({ leaseEnd: "rerun" }, () => frozen);
    const { work, started, release } = gated();
    const first = submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    expect(await leaseRescuer(other).runOnce()).toEqual({ found: 0, rescued: 0, resumed: 0 });
    expect(await submitElsewhere(async () => answer(201, "winner"))).toMatchObject({ kind: "executed" });
    release();
    expect(await first).toMatchObject({ kind: "replay", answer: { status: 201 } });
    expect(starts()).toBe(2);
  });

  test("is not taken over for ever: an operation that kills its owner ends in unknown", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, ports, starts } = setUp({ leaseEnd: "rerun", attemptsMax: 3 }, () => frozen);
    for (let attempt = 1; attempt <= 3; attempt++) {
      const { work, started } = gated();
      void submit(work);
      await started;
      await ports.clock.advance(leaseMs);
    }
    const seen = submit(answers);
    await ports.clock.advance(100);
    expect(await seen).toMatchObject({ kind: "unknown" });
    expect(starts()).toBe(3);
  });

  test("lost by a handler that then throws: the caller gets what the record says", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, ports, other } = setUp({}, () => frozen);
    const { work, started, release } = gated(new Error("aborted"));
    const first = submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    await leaseRescuer(other).runOnce();
    release();
    expect(await first).toMatchObject({ kind: "unknown" });
  });

  test("that outlives the attempt's limit: stopped, unknown", async () => {
    const { submit, ports } = setUp({ attemptLimitMs: 10_000 });
    const { work, started } = gated();
    const first = submit(work);
    const signal = await started;
    await ports.clock.advance(10_000);
    expect(signal.aborted).toBe(true);
    expect(await first).toMatchObject({ kind: "unknown" });
    expect(await submit(answers)).toMatchObject({ kind: "unknown" });
  });

  test("that outlives the attempt's limit and answers after all: that is what has happened", async () => {
    const { submit, ports } = setUp({ attemptLimitMs: 10_000 });
    const { work, started, release } = gated();
    const first = submit(work);
    await started;
    await ports.clock.advance(10_000);
    expect(await first).toMatchObject({ kind: "unknown" });
    release();
    await ports.clock.advance(1);
    expect(await submit(answers)).toMatchObject({ kind: "replay" });
  });
});

describe("an admission whose reply comes after its lease has ended", () => {
  /** Creates the record at once; the reply of the first creation waits for `reply`. */
  function late() {
    const reply = Promise.withResolvers<void>();
    const wrap = (store: Store<MemoryTransaction>): Partial<Store<MemoryTransaction>> => {
      let first = true;
      return {
        async create(...given) {
          const created = await store.create(...given);
          if (first) {
            first = false;
            await reply.promise;
          }
          return created;
        },
      };
    };
    return { wrap, reply: reply.resolve };
  }

  test("starts no handler when others have settled it meanwhile", async () => {
    const { wrap, reply } = late();
    const { submit, ports, starts, other } = setUp({}, wrap);
    const first = submit(answers);
    await ports.clock.advance(leaseMs);
    expect(await leaseRescuer(other).runOnce()).toEqual({ found: 1, rescued: 1, resumed: 0 });
    reply();
    await ports.clock.advance(1_000);
    expect(await first).toMatchObject({ kind: "unknown" });
    expect(starts()).toBe(0);
  });

  test.each([
    // Nearer to its end than an owner may go.
    ["nearly", -1],
    ["quite", 0],
  ])("and has %s ended: the handler starts under a whole lease, renewed or new", async (_what, afterMs) => {
    const { wrap, reply } = late();
    const { submit, ports, starts } = setUp({}, wrap);
    const { work, started, release } = gated();
    const first = submit(work);
    await ports.clock.advance(leaseMs + afterMs);
    reply();
    await ports.clock.advance(100);
    const signal = await started;
    await ports.clock.advance(leaseMs * 2);
    expect(signal.aborted).toBe(false);
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(starts()).toBe(1);
  });

  // Found by P1.
  test("after a slow look-up: nothing that was sent before can take the attempt away from its handler", async () => {
    const [looked, arrival] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let gone: Promise<unknown> = Promise.resolve();
    let looks = 0;
    const { submit, submitElsewhere, ports, starts } = setUp({}, (store) => ({
      async read(...given) {
        looks += 1;
        if (looks === 1) await looked.promise;
        return store.read(...given);
      },
      // Still on its way when its caller gives it up.
      async end(...given) {
        if (given[3].event !== "release") return store.end(...given);
        gone = arrival.promise.then(() => store.end(...given));
        throw new StoreError("in_doubt");
      },
    }));
    const { work, started, release } = gated();
    const first = submit(work);
    await ports.clock.advance(leaseMs);
    looked.resolve();
    await ports.clock.advance(100);
    await started;
    arrival.resolve();
    await gone;
    expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress" });
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(starts()).toBe(1);
  });

  test("beats at once when little of the lease is left", async () => {
    const { wrap, reply } = late();
    const { submit, ports } = setUp({}, wrap);
    const { work, started, release } = gated();
    const first = submit(work);
    await ports.clock.advance(leaseMs * 0.8);
    reply();
    const signal = await started;
    await ports.clock.advance(leaseMs * 2);
    expect(signal.aborted).toBe(false);
    release();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
  });
});

test("a beat that meets the attempt's own end does not make it doubtful, nor the lease lost", async () => {
  const reply = Promise.withResolvers<void>();
  let ends = 0;
  const { submit, ports, events } = setUp({}, (store) => ({
    async end(...given) {
      ends += 1;
      const written = await store.end(...given);
      if (ends === 1) await reply.promise;
      return written;
    },
  }));
  const first = submit(answers);
  await ports.clock.advance(leaseMs / 3);
  reply.resolve();
  await ports.clock.advance(100);
  expect(await first).toMatchObject({ kind: "executed", stored: true });
  expect(events.map(({ type }) => type)).toEqual(["executed"]);
});

test("an owner that only learns at its end that it has lost says so once", async () => {
  const { submit, ports, events, other } = setUp({}, () => ({ renew: async () => true }));
  const { work, started, release } = gated();
  const first = submit(work);
  await started;
  await ports.clock.advance(leaseMs);
  await leaseRescuer(other).runOnce();
  release();
  expect(await first).toMatchObject({ kind: "executed", stored: true });
  expect(events.map(({ type }) => type)).toEqual(["lease_lost", "settled", "executed"]);
});

describe("a reply that is lost", () => {
  /** Does the write, then loses its reply, `times` times. */
  function losing<A extends unknown[], R>(write: (...given: A) => Promise<R>, times: number) {
    let left = times;
    return async (...given: A): Promise<R> => {
      const result = await write(...given);
      left -= 1;
      if (left >= 0) throw new StoreError("in_doubt");
      return result;
    };
  }

  test("at admission: the record is recognised as one's own, and the handler runs once", async () => {
    const { submit, ports, starts } = setUp({}, (store) => ({ create: losing(store.create, 1) }));
    const first = submit(answers);
    await ports.clock.advance(100);
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(starts()).toBe(1);
  });

  test("at the end: the answer is the owner's all the same", async () => {
    const { submit, ports } = setUp({}, (store) => ({ end: losing(store.end, 1) }));
    const first = submit(answers);
    await ports.clock.advance(100);
    expect(await first).toMatchObject({ kind: "executed", stored: true });
    expect(await submit(answers)).toMatchObject({ kind: "replay" });
  });

  test("at the end, and the call never settles: in doubt, and the lease is not kept for ever", async () => {
    const { submit, submitElsewhere, ports } = setUp({}, () => ({ end: () => new Promise<never>(() => {}) }));
    const first = submit(answers);
    await ports.clock.advance(patienceMs + 100);
    expect(await first).toMatchObject({ kind: "commit_in_doubt" });
    await ports.clock.advance(leaseMs);
    const second = submitElsewhere(answers);
    await ports.clock.advance(100);
    expect(await second).toMatchObject({ kind: "unknown" });
  });

  test("at the end, while the lease is lost: one last try, and in doubt", async () => {
    const { submit, ports, events } = setUp({}, () => ({
      renew: async () => {
        throw new StoreError("not_sent");
      },
      end: () => new Promise<never>(() => {}),
    }));
    const first = submit(answers);
    await ports.clock.advance(leaseMs - 1 + 2_000);
    expect(await first).toMatchObject({ kind: "commit_in_doubt" });
    expect(events.map((event) => event.type)).toContain("lease_lost");
  });

  test("at the end, which waits longer than a lease for its turn: written, because the lease is kept", async () => {
    const turn = Promise.withResolvers<void>();
    const { submit, ports } = setUp({}, (store) => ({
      end: async (...given) => {
        await turn.promise;
        return store.end(...given);
      },
    }));
    const first = submit(answers);
    await ports.clock.advance(leaseMs * 2);
    turn.resolve();
    expect(await first).toMatchObject({ kind: "executed", stored: true });
  });

  test("at the end for good: in doubt, never success", async () => {
    const { submit, ports } = setUp({}, () => ({
      end: async () => {
        throw new StoreError("in_doubt");
      },
    }));
    const first = submit(answers);
    await ports.clock.advance(patienceMs + 100);
    expect(await first).toMatchObject({ kind: "commit_in_doubt" });
  });
});

test("a store that is down: no business code runs", async () => {
  const { submit, starts } = setUp({}, () => ({
    read: async () => {
      throw new StoreError("not_sent");
    },
  }));
  await expect(submit(answers)).rejects.toBeInstanceOf(StoreError);
  expect(starts()).toBe(0);
});

test("many at once: one start, the others are told that it is running", async () => {
  const { submit, ports, starts } = setUp();
  const { work, started, release } = gated();
  const all = Promise.all(Array.from({ length: 50 }, () => submit(work)));
  await started;
  await ports.clock.advance(100);
  release();
  const kinds = (await all).map((result) => result.kind);
  expect(kinds.filter((kind) => kind === "executed")).toHaveLength(1);
  expect(kinds.filter((kind) => kind === "in_progress")).toHaveLength(49);
  expect(starts()).toBe(1);
});

test.each([
  [0, 1_000],
  [1_999, 1_000],
  [2_000, 1_000],
  [6_000, 3_000],
  [19_999, 10_000],
  [20_000, 10_000],
  [600_000, 10_000],
])("a duplicate after %i ms comes back in %i: later, the longer it runs", async (age, retryAfterMs) => {
  const { submit, submitElsewhere, ports } = setUp({ leaseMs: 60_000 });
  const { work, started, release } = gated();
  const first = submit(work);
  await started;
  await ports.clock.advance(age);
  expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress", retryAfterMs });
  release();
  await first;
});

test("a duplicate comes back when the lease ends, if nobody renews it", async () => {
  const { submit, submitElsewhere, ports } = setUp({ leaseMs: 40_000 }, () => ({
    renew: async () => {
      throw new StoreError("not_sent");
    },
  }));
  const { work, started, release } = gated();
  const first = submit(work).catch(() => {});
  await started;
  await ports.clock.advance(35_000);
  expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress", retryAfterMs: 5_000 });
  await ports.clock.advance(4_900);
  expect(await submitElsewhere(answers)).toMatchObject({ kind: "in_progress", retryAfterMs: 1_000 });
  release();
  await ports.clock.advance(100_000);
  await first;
});

test("what a handler has started may use its key once the attempt is over", async () => {
  const { submit, starts } = setUp();
  const over = Promise.withResolvers<void>();
  let later: Promise<unknown> = Promise.resolve();
  await submit(async () => {
    later = over.promise.then(() => submit(answers));
    return answer(429);
  });
  over.resolve();
  expect(await later).toMatchObject({ kind: "executed" });
  expect(starts()).toBe(2);
});

test("inside its own handler a key is refused, also through another one", async () => {
  const { submit, starts } = setUp();
  const inner = { ...submission, key: { ...key, key: "inner" } };
  const outcome = await submit(async () => {
    const nested = submit(async () => (await submit(answers)) as never, inner);
    await expect(nested).rejects.toMatchObject({ code: "nested-key" });
    return answer(200);
  });
  expect(outcome).toMatchObject({ kind: "executed" });
  expect(starts()).toBe(2);
});

test.each<readonly [string, Submission]>([
  ["key", { ...submission, key: { ...key, key: "a\u0000b" } }],
  ["key", { ...submission, key: { ...key, key: "\ud800" } }],
  ["tenant", { ...submission, key: { ...key, tenant: "t\udc00" } }],
  ["principal", { ...submission, principal: "p\u0000" }],
])(
  "a %s that a store could not keep, or not tell from another, is refused before anything",
  async (what, given) => {
    const { submit, starts } = setUp({}, () => ({
      read: () => Promise.reject(new Error("it must not be asked")),
    }));
    await expect(submit(answers, given)).rejects.toThrow(what);
    expect(starts()).toBe(0);
  },
);

describe("what is reported", () => {
  const typesOf = (events: readonly LatchkeyEvent[]) => events.map(({ type }) => type);

  test("a released answer: executed and released", async () => {
    const { submit, events } = setUp();
    await submit(async () => answer(429));
    expect(typesOf(events)).toEqual(["released", "executed"]);
  });

  test("a handler's error, whatever it means for the record", async () => {
    const { submit, events } = setUp();
    const error = new NotExecuted();
    await expect(submit(() => Promise.reject(error))).rejects.toBe(error);
    expect(events).toMatchObject([{ type: "attempt_failed", error }, { type: "released" }]);
    const other = new Error("socket hang up");
    await expect(submit(() => Promise.reject(other))).rejects.toBe(other);
    expect(events.slice(2)).toMatchObject([{ type: "attempt_failed", error: other }]);
  });

  test("a dead attempt that a request settles, as when the rescuer does", async () => {
    const frozen = { renew: () => new Promise<boolean>(() => {}) };
    const { submit, ports, events } = setUp({}, () => frozen);
    const { work, started } = gated();
    void submit(work);
    await started;
    await ports.clock.advance(leaseMs);
    const second = submit(answers);
    await ports.clock.advance(100);
    expect(await second).toMatchObject({ kind: "unknown" });
    expect(typesOf(events)).toEqual(["lease_lost", "lease_rescued", "unknown"]);
    expect(events[1]).toMatchObject({ because: "lease-ended", operation: "op" });
  });

  test("an end in doubt", async () => {
    const { submit, ports, events } = setUp({}, () => ({ end: () => Promise.reject(new Error("down")) }));
    const first = submit(answers);
    await ports.clock.advance(patienceMs + 100);
    expect(await first).toMatchObject({ kind: "commit_in_doubt" });
    expect(events).toMatchObject([{ type: "commit_in_doubt", resolved: "in_doubt" }]);
  });
});
