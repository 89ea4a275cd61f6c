import { describe, expect, test } from "vitest";
import {
  type Attempt,
  type Charging,
  frozen,
  gone,
  key,
  leaseMs,
  never,
  type Options,
  processOf,
  request,
  setUp,
  type Tx,
  threeSteps,
  type Work,
} from "../../../../test/support/charging-world.ts";
import type { ChargeInput } from "../../../../test/support/downstream-ledger.ts";
import type { CodecContext } from "../codec.ts";
import { NotExecuted, StoreError } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import type { CallStep } from "../stores/journal.ts";
import type { Store } from "../stores/store.ts";
import type { RunAnswer } from "./own-work.ts";

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
    expect(world.types()).toEqual(["executed", "replayed"]);
    const journal = await world.journal();
    expect(journal).toMatchObject({ input: null, recoveryPoint: "settled" });
    expect(journal?.steps.map(({ name, position }) => [name, position])).toEqual([
      ["order", 0],
      ["charged", 1],
      ["settled", 2],
    ]);
  });

  test("gets its input, and the results of its steps, after one round trip through JSON", async () => {
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

  test("cannot be handed a handler", async () => {
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
    expect(world.types()).toEqual(["attempt_failed", "released"]);
  });

  test("after a step keeps it: the next request goes on after it", async () => {
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

  test("a 5xx counts as one, and is sent", async () => {
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
    expect(world.memory.rows("ends"), "an answer that is not kept leaves no writes").toHaveLength(0);
    status = 200;
    expect(await submit()).toMatchObject({ kind: "executed", status: 200 });
    expect(world.memory.rows("orders")).toHaveLength(1);
  });

  test("release() frees what has no steps, and keeps what has", async () => {
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

describe("steps", () => {
  test("run one after the other, each name once", async () => {
    const world = setUp();
    const { submit } = processOf(world, async (attempt) => {
      const gate = Promise.withResolvers<void>();
      const first = attempt.phase("a", () => gate.promise);
      const errors = [await attempt.phase("b", async () => 1).catch(String)];
      gate.resolve();
      await first;
      errors.push(await attempt.phase("a", async () => 1).catch(String));
      errors.push(await attempt.phase("", async () => 1).catch(String));
      return { body: errors };
    });
    const result = await submit();
    expect(result).toMatchObject({
      value: [
        expect.stringContaining("one after the other"),
        expect.stringContaining("used once"),
        expect.stringContaining("1 to 200"),
      ],
    });
  });

  test("that nobody waits for end before the attempt does, and their answer is not kept", async () => {
    const world = setUp();
    const gate = Promise.withResolvers<void>();
    const { submit } = processOf(
      world,
      async (attempt, charge, input) => {
        void attempt.call("charged", charge, input);
        return { status: 201 };
      },
      { effect: { execute: (input, call) => gate.promise.then(() => world.ledger.charge(call.key, input)) } },
    );
    const first = submit();
    await world.ports.clock.advance(10);
    expect(await world.record()).toMatchObject({ state: "in_progress" });
    gate.resolve();
    await expect(world.inTime(first, 10)).rejects.toThrow("await every step");
    expect(await world.record()).toMatchObject({ state: "retryable" });
    expect((await world.journal())?.steps).toMatchObject([{ name: "charged", state: "finished" }]);
  });

  test("begun when the attempt is over write nothing", async () => {
    const world = setUp();
    let kept: Attempt | null = null;
    const { submit } = processOf(world, async (attempt) => {
      kept = attempt;
      return { status: 201 };
    });
    await submit();
    await expect((kept as Attempt | null)?.phase("late", async () => 1)).rejects.toMatchObject({
      code: "attempt-lost",
    });
  });

  test.each<[string, (attempt: Attempt, charge: Charging) => Promise<unknown>]>([
    ["leaves one out, and asks for a new one", (attempt) => attempt.phase("other", async () => 1)],
    ["leaves one out, and ends", async () => null],
    ["asks in another order", (attempt) => attempt.phase("second", async () => 1)],
    ["makes a call of a phase", (attempt, charge) => attempt.call("first", charge, { amount: 1 })],
    ["makes a last phase of a phase", (attempt) => attempt.finish("first", async () => ({ status: 200 }))],
  ])("changed: a resumed run that %s ends unknown, and waits for a person", async (_what, changed) => {
    const world = setUp();
    let resumed = false;
    const { submit, reconciler } = processOf(world, async (attempt, charge) => {
      if (resumed) return { body: await changed(attempt, charge).catch(() => "swallowed") };
      await attempt.phase("first", async () => 1);
      await attempt.phase("second", async () => 1);
      throw new Error("again");
    });
    await expect(submit()).rejects.toThrow("again");
    resumed = true;
    expect(await submit()).toMatchObject({ kind: "unknown", retryAfterMs: null });
    expect(await world.record()).toMatchObject({
      state: "unknown",
      lastErrorCode: "steps-changed",
      reconcileAfter: null,
    });
    await world.ports.clock.advance(100_000);
    expect(await reconciler.runOnce()).toMatchObject({ found: 0 });
  });

  test("of another version end unknown before anything runs", async () => {
    const world = setUp();
    const { submit } = processOf(world, async (attempt) => {
      await attempt.phase("first", async () => 1);
      throw new Error("again");
    });
    await expect(submit()).rejects.toThrow("again");
    let ran = false;
    const next = processOf(
      world,
      async () => {
        ran = true;
        return {};
      },
      { options: { version: "2" } },
    );
    expect(await next.submit()).toMatchObject({ kind: "unknown" });
    expect(await world.record()).toMatchObject({ lastErrorCode: "version-changed", reconcileAfter: null });
    expect(ran).toBe(false);
  });

  test("are not gone on with from a dead attempt of a handler, before the operation owned its work", async () => {
    const world = setUp();
    const before = createLatchkey<Tx>({
      store: { ...world.memory, renew: never, end: never },
      ports: world.ports,
    });
    const bare = before.operation("charge", { execution: "lease", leaseMs });
    void before.run(bare, request, async () => {
      world.ledger.charge("by hand", { amount: 5 });
      return never();
    });
    await world.ports.clock.advance(leaseMs);
    const { submit, reconciler, rescuer } = processOf(world, threeSteps);
    expect(await world.inTime(submit(), 10)).toMatchObject({ kind: "unknown" });
    await world.ports.clock.advance(1_000);
    expect(await reconciler.runOnce()).toMatchObject({ deadLettered: 1 });
    await rescuer.runOnce();
    expect(world.ledger.requests).toHaveLength(1);
    expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "lease-ended" });
  });

  test("are not done again by a handler, after the operation owned its work", async () => {
    const world = setUp();
    const owned = processOf(world, async (attempt, charge, input) => {
      await attempt.call("charged", charge, input);
      throw new Error("later");
    });
    await expect(world.inTime(owned.submit())).rejects.toThrow("later");
    let fails = true;
    const read: Store["journal"]["read"] = async (...args) => {
      if (fails) throw new StoreError("not_sent");
      return world.memory.journal.read(...args);
    };
    const store = { ...world.memory, journal: { ...world.memory.journal, read } };
    const after = createLatchkey<Tx>({ store, ports: world.ports });
    const bare = after.operation("charge", { execution: "lease", leaseMs });
    let ran = false;
    const submit = () =>
      after.run(bare, request, async () => {
        ran = true;
      });
    await expect(submit()).rejects.toThrow(StoreError);
    expect(await world.record()).toMatchObject({ state: "retryable" });
    fails = false;
    expect(await submit()).toMatchObject({ kind: "unknown", retryAfterMs: null });
    expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "steps-changed" });
    expect(ran).toBe(false);
  });

  test("everything that is stored passes the codec, for its own record", async () => {
    const contexts: CodecContext[] = [];
    const seal = (bytes: Uint8Array, context: CodecContext) => {
      contexts.push(context);
      return Buffer.from(bytes.map((byte) => byte ^ 0xff));
    };
    const world = setUp({ codec: { encode: seal, decode: seal } });
    let fails = true;
    const run = async (attempt: Attempt, charge: Charging, input: ChargeInput) => {
      const said = await attempt.phase("order", async () => "canary-phase");
      const { id } = await attempt.call("charged", charge, input);
      if (fails) throw new Error("again");
      return { status: 201, body: [said, id, input.amount] };
    };
    const { submit } = processOf(world, run);
    await expect(world.inTime(submit())).rejects.toThrow("again");
    const id = (await world.record())?.id;
    const journal = await world.journal();
    const [phase, call] = journal?.steps ?? [];
    for (const bytes of [journal?.input, phase?.result, call?.result, (call as CallStep).input]) {
      expect(Buffer.from(bytes ?? []).toString()).not.toMatch(/canary|amount|ch_1/);
      expect(bytes?.byteLength).toBeGreaterThan(0);
    }
    fails = false;
    expect(await world.inTime(submit())).toMatchObject({ value: ["canary-phase", "ch_1", 5] });
    for (const context of contexts) expect(context).toMatchObject({ ...key, recordId: id });
  });
});

describe("a resumed run", () => {
  test("that begins a new step before an old one does not run it", async () => {
    const world = setUp();
    let resumed = false;
    const { submit } = processOf(world, async (attempt) => {
      if (resumed) await attempt.phase("other", (tx) => tx.insert("others", {})).catch(() => {});
      await attempt.phase("first", async () => 1).catch(() => {});
      if (!resumed) throw new Error("again");
      return {};
    });
    await expect(submit()).rejects.toThrow("again");
    resumed = true;
    expect(await submit()).toMatchObject({ kind: "unknown" });
    expect(world.memory.rows("others")).toHaveLength(0);
  });

  test("may leave out a call that did not happen", async () => {
    const world = setUp({
      kind: "none",
      effect: { retry: { attempts: 1 }, execute: () => Promise.reject(new NotExecuted()) },
    });
    let tries = 0;
    const { submit } = processOf(world, async (attempt, charge, input) => {
      tries += 1;
      return tries === 1 ? { body: await attempt.call("charged", charge, input) } : { body: "without" };
    });
    await expect(world.inTime(submit(), 900)).rejects.toThrow(NotExecuted);
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "executed", value: "without" });
  });
});

describe("a worker", () => {
  /** An attempt that has died after its first phase. */
  async function dead(work: Work, options: Options = {}) {
    const world = setUp({ options });
    void processOf(
      world,
      async (attempt) => {
        await attempt.phase("order", async () => 1);
        return new Promise<never>(() => {});
      },
      frozen,
    ).submit();
    await world.ports.clock.advance(leaseMs);
    return { world, ...processOf(world, work) };
  }

  test("tries again by itself while attempts are left, ever later", async () => {
    const { world, rescuer, submit } = await dead(
      async (attempt) => {
        await attempt.phase("order", async () => 1);
        throw new Error("not yet");
      },
      { attemptsMax: 4 },
    );
    const resumed: number[] = [];
    for (let second = 0; second < 20; second++) {
      resumed.push((await rescuer.runOnce()).resumed);
      await world.ports.clock.advance(1_000);
    }
    expect(resumed.map((count, second) => (count > 0 ? second : -1)).filter((second) => second >= 0)).toEqual(
      [0, 2, 6],
    );
    expect(await world.record()).toMatchObject({ state: "retryable", fence: { attempt: 4 } });
    await expect(submit()).rejects.toThrow("not yet");
    expect((await rescuer.runOnce()).resumed, "a request's own retries are its client's").toBe(0);
  });

  test("goes on rescuing while what it resumed takes its time, and waits for that when it stops", async () => {
    const world = setUp();
    const gate = Promise.withResolvers<RunAnswer>();
    void processOf(world, threeSteps, { ...gone, kind: "none" }).submit();
    await world.ports.clock.advance(leaseMs);
    const { rescuer } = processOf(world, async (attempt) => {
      await attempt.phase("order", async () => 1);
      return gate.promise;
    });
    expect(await world.inTime(rescuer.runOnce(), 10_000)).toMatchObject({ resumed: 1 });
    expect(await world.record()).toMatchObject({ state: "in_progress", fence: { attempt: 2 } });
    expect(await rescuer.runOnce(), "it has its lease").toMatchObject({ found: 0, rescued: 0, resumed: 0 });
    let stopped = false;
    const stopping = rescuer.stop().then(() => {
      stopped = true;
    });
    await world.ports.clock.advance(1_000);
    expect(stopped).toBe(false);
    gate.resolve({ status: 201, body: "late" });
    await world.inTime(stopping, 1_000);
    expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "steps-changed" });
  });

  test("leaves a request's retry to its client", async () => {
    const world = setUp();
    const { submit, rescuer } = processOf(world, async (attempt) => {
      await attempt.phase("order", async () => 1);
      throw new Error("not yet");
    });
    await expect(submit()).rejects.toThrow("not yet");
    await world.ports.clock.advance(100_000);
    expect((await rescuer.runOnce()).resumed).toBe(0);
  });

  test("refuses a key inside itself, and says so", async () => {
    let nested: unknown = null;
    const { rescuer, submit } = await dead(async (attempt) => {
      await attempt.phase("order", async () => 1);
      nested = await submit().catch((error: unknown) => error);
      return {};
    });
    expect((await rescuer.runOnce()).resumed).toBe(1);
    expect(nested).toMatchObject({ code: "nested-key" });
  });

  test("begins no new life where the record has gone", async () => {
    let runs = 0;
    const { world, latchkey } = await dead(async () => {
      runs += 1;
      return {};
    });
    const stale = await world.memory.settlement.resumable(["charge"], 10);
    const [record] = stale;
    if (record === undefined) throw new Error("nothing to resume");
    await world.memory.end(key, record.id, record.fence, { event: "release" });
    const { store } = latchkey.runtime;
    const late = processOf(
      world,
      async () => {
        runs += 1;
        return {};
      },
      { wrap: () => ({ ...store, settlement: { ...store.settlement, resumable: async () => stale } }) },
    );
    await late.rescuer.runOnce();
    expect(runs).toBe(0);
    expect(await world.record()).toBeNull();
  });
});

test("an answer that is too large to keep is said once, and its repetition says that it is not kept", async () => {
  const world = setUp({ options: { answerLimitBytes: 5 } });
  const { submit } = processOf(world, async () => ({ status: 201, body: "larger than that" }));
  expect(await submit()).toMatchObject({ kind: "executed", value: "larger than that" });
  expect(await submit()).toMatchObject({ kind: "answer_not_stored" });
});
