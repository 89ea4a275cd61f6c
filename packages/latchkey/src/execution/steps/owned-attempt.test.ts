import { describe, expect, test } from "vitest";
import { key, processOf, request, setUp, threeSteps } from "../../../../../test/support/charging-world.ts";

describe("an operation that owns its work", () => {
  test("runs its steps once, completes with the last one, and is replayed", async () => {
    const world = setUp();
    const { submit } = processOf(world, threeSteps);
    const first = await world.inTime(submit());
    expect(first).toMatchObject({
      kind: "executed",
      status: 201,
      value: { orderId: "order-1", chargeId: "ch_1" },
    });
    expect(await submit()).toMatchObject({
      kind: "replay",
      status: 201,
      value: { orderId: "order-1", chargeId: "ch_1" },
    });
    expect(world.memory.rows("orders")).toHaveLength(1);
    expect(world.memory.rows("settled")).toEqual([{ orderId: "order-1", charge: "ch_1" }]);
    expect(world.ledger.charges).toHaveLength(1);
    const steps = Array.from({ length: 3 }, () => "step_finished");
    expect(world.types()).toEqual(["reserved", ...steps, "executed", "replayed"]);
    const journal = await world.journal();
    expect(journal).toMatchObject({ input: null, recoveryPoint: "settled" });
    expect(journal?.steps.map(({ name, position }) => [name, position])).toEqual([
      ["order", 0],
      ["charged", 1],
      ["settled", 2],
    ]);
  });

  test("gets its input and its steps' results after a round trip through JSON", async () => {
    const world = setUp();
    const seen: unknown[] = [];
    const { latchkey } = world.start(async () => ({}));
    const odd = latchkey.operation("odd", {
      execution: "lease",
      version: "1",
      run: async (input: { at: unknown; gone?: undefined }, attempt) => {
        seen.push(input);
        seen.push(await attempt.phase("date", async () => new Date(0)));
        seen.push(await attempt.phase("nothing", async () => undefined));
        return { body: { at: new Date(0) } };
      },
    });
    const result = await latchkey.run(odd, {
      tenant: "t",
      key: "odd",
      input: { at: new Date(0), gone: undefined },
    });
    expect(seen).toEqual([{ at: "1970-01-01T00:00:00.000Z" }, "1970-01-01T00:00:00.000Z", undefined]);
    expect(result).toMatchObject({
      kind: "executed",
      status: 200,
      value: { at: "1970-01-01T00:00:00.000Z" },
    });
  });

  test("refuses input, results and answers without JSON form", async () => {
    const world = setUp();
    const big = processOf(world, async (attempt) => attempt.phase("big", async () => 1n) as never);
    await expect(big.submit()).rejects.toThrow("has no JSON form");
    expect(await world.record(), "nothing was recorded").toBeNull();
    const { latchkey, operation } = big;
    await expect(latchkey.run(operation, { ...request, input: { amount: 1n } as never })).rejects.toThrow(
      TypeError,
    );
    const silent = setUp();
    await expect(processOf(silent, async () => undefined as never).submit()).rejects.toThrow(
      "must return an answer",
    );
  });

  test("under transaction: run gets tx, and all commits together", async () => {
    const { latchkey } = setUp().start(async () => ({}));
    const order = latchkey.operation("order", {
      version: "1",
      run: async (input: { item: string }, { tx, id }) => {
        await tx.insert("orders", { item: input.item });
        return { status: 201, headers: { location: `/orders/${id}` }, body: { item: input.item } };
      },
    });
    const once = { tenant: "t", key: "o", input: { item: "book" } };
    const first = await latchkey.run(order, once);
    expect(first).toMatchObject({ kind: "executed", status: 201, value: { item: "book" } });
    expect(await latchkey.run(order, once)).toMatchObject({
      kind: "replay",
      status: 201,
      value: { item: "book" },
    });
  });

  test("does not take a handler", async () => {
    const { latchkey, operation } = setUp().start(async () => ({}));
    const submission = { key, fingerprint: { version: 1, digest: new Uint8Array(1) }, principal: null };
    const work = async () => ({ status: 200, headers: [], body: new Uint8Array(), omitted: null });
    await expect(latchkey.execute(operation, submission, work)).rejects.toThrow("owns its work");
  });
});

describe("a throw", () => {
  test("before any step was recorded frees the key", async () => {
    const world = setUp();
    const { submit } = processOf(world, async () => {
      throw new Error("no");
    });
    await expect(submit()).rejects.toThrow("no");
    expect(await world.record()).toBeNull();
    expect(world.types()).toEqual(["reserved", "attempt_failed", "released"]);
  });

  test("after a step keeps it: the next request continues after it", async () => {
    const world = setUp();
    let fails = true;
    const { submit } = processOf(world, async (attempt, charge, input) => {
      await attempt.phase("order", (tx) => tx.insert("orders", { once: true }));
      await attempt.call("charged", charge, input);
      if (fails) throw new Error("later");
      return { status: 201, body: "done" };
    });
    await expect(world.inTime(submit())).rejects.toThrow("later");
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "handler-threw" });
    fails = false;
    expect(await world.inTime(submit())).toMatchObject({ kind: "executed", value: "done" });
    expect(world.memory.rows("orders")).toHaveLength(1);
    expect(world.ledger.requests).toHaveLength(1);
    expect(world.types().filter((type) => type === "step_resumed")).toHaveLength(2);
    expect(world.events).toContainEqual(
      expect.objectContaining({
        type: "attempt_resumed",
        attempt: 2,
        by: "request",
        recoveryPoint: "charged",
      }),
    );
    expect(JSON.stringify(world.events)).not.toContain('"k"');
  });

  test("a 5xx counts as an error, and is sent", async () => {
    const world = setUp();
    let status = 503;
    const { submit } = processOf(world, async (attempt) => {
      await attempt.phase("order", (tx) => tx.insert("orders", {}));
      return attempt.finish("end", async (tx) => {
        await tx.insert("ends", {});
        return { status, body: status };
      });
    });
    expect(await submit()).toMatchObject({ kind: "executed", status: 503 });
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "status-503" });
    expect(world.memory.rows("ends"), "an answer that is not stored leaves no writes").toHaveLength(0);
    status = 200;
    expect(await submit()).toMatchObject({ kind: "executed", status: 200 });
    expect(world.memory.rows("orders")).toHaveLength(1);
  });

  test("release() frees a life without steps, and keeps one with steps", async () => {
    const world = setUp();
    let withStep = false;
    const { submit } = processOf(world, async (attempt) => {
      if (withStep) await attempt.phase("order", (tx) => tx.insert("orders", {}));
      attempt.release();
      return { status: 400 };
    });
    expect(await submit()).toMatchObject({ kind: "executed", status: 400 });
    expect(await world.record()).toBeNull();
    withStep = true;
    await submit();
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "released" });
  });
});

test("an answer that is too large to store is sent once; its repetition reports that it is not stored", async () => {
  const world = setUp({ options: { answerLimitBytes: 5 } });
  const { submit } = processOf(world, async () => ({ status: 201, body: "larger than that" }));
  expect(await submit()).toMatchObject({ kind: "executed", value: "larger than that" });
  expect(await submit()).toMatchObject({ kind: "answer_not_stored" });
});
