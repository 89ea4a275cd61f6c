import { describe, expect, test } from "vitest";
import {
  answer,
  insertsOrder,
  key,
  setUp,
  submission,
} from "../../../../../test/support/transaction-world.ts";
import type { Answer } from "../../operations/answer.ts";
import type { Work } from "../../operations/attempt.ts";
import type { MemoryTransaction } from "../../stores/memory.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";

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

  test("of 5xx is stored without its writes under serverErrors: store", async () => {
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

describe("duplicates", () => {
  test("of a running request get in_progress at once", async () => {
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

  test("wait for the answer if the operation says so", async () => {
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

  test("that have waited long enough get in_progress", async () => {
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

  test("of another tenant run separately", async () => {
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

describe("events", () => {
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
