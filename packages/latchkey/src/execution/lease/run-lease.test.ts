import { describe, expect, test } from "vitest";
import {
  answer,
  answers,
  gated,
  key,
  leaseMs,
  patienceMs,
  setUp,
  submission,
} from "../../../../../test/support/lease-world.ts";
import { NotExecuted, StoreError } from "../../errors.ts";
import { createLatchkey } from "../../latchkey.ts";
import type { Submission } from "../../operations/attempt.ts";
import type { MemoryTransaction } from "../../stores/memory.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";

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

  test("of 5xx is stored or released if the operation says so", async () => {
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
    "is in doubt if the operation's own predicate %s; its error reaches the caller",
    async (_what, judge) => {
      const { submit } = setUp({ isNotExecuted: judge as () => boolean });
      await expect(submit(() => Promise.reject(new Error("socket hang up")))).rejects.toThrow(
        "socket hang up",
      );
      expect(await submit(answers)).toMatchObject({ kind: "unknown" });
    },
  );

  test("and has lost its lease does not answer with its error, whatever state the record has", async () => {
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

test("a store that is down: no business code runs", async () => {
  const { submit, starts } = setUp({}, () => ({
    read: async () => {
      throw new StoreError("not_sent");
    },
  }));
  await expect(submit(answers)).rejects.toBeInstanceOf(StoreError);
  expect(starts()).toBe(0);
});

test("work that a handler started may use its key once the attempt is over", async () => {
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

test("inside its own handler a key is refused, also through another key", async () => {
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
  "a %s that a store could not store, or could confuse with another, is refused at once",
  async (what, given) => {
    const { submit, starts } = setUp({}, () => ({
      read: () => Promise.reject(new Error("it must not be asked")),
    }));
    await expect(submit(answers, given)).rejects.toThrow(what);
    expect(starts()).toBe(0);
  },
);

describe("events", () => {
  const typesOf = (events: readonly LatchkeyEvent[]) => events.map(({ type }) => type);

  test("a released answer: executed and released", async () => {
    const { submit, events } = setUp();
    await submit(async () => answer(429));
    expect(typesOf(events)).toEqual(["reserved", "released", "executed"]);
  });

  test("a handler's error, whatever it means for the record", async () => {
    const { submit, events } = setUp();
    const error = new NotExecuted();
    await expect(submit(() => Promise.reject(error))).rejects.toBe(error);
    expect(events).toMatchObject([
      { type: "reserved" },
      { type: "attempt_failed", error },
      { type: "released" },
    ]);
    const other = new Error("socket hang up");
    await expect(submit(() => Promise.reject(other))).rejects.toBe(other);
    expect(events.slice(3)).toMatchObject([
      { type: "reserved" },
      { type: "attempt_failed", error: other },
      { type: "became_unknown", because: "handler-threw" },
    ]);
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
    expect(typesOf(events)).toEqual(["reserved", "lease_lost", "lease_rescued", "unknown"]);
    expect(events[2]).toMatchObject({ because: "lease-ended", operation: "op" });
  });

  test("an end in doubt", async () => {
    const { submit, ports, events } = setUp({}, () => ({ end: () => Promise.reject(new Error("down")) }));
    const first = submit(answers);
    await ports.clock.advance(patienceMs + 100);
    expect(await first).toMatchObject({ kind: "commit_in_doubt" });
    expect(events).toMatchObject([
      { type: "reserved", by: "lease" },
      { type: "commit_in_doubt", resolved: "in_doubt" },
    ]);
  });
});
