import { describe, expect, test } from "vitest";
import {
  type Charge,
  type ChargeInput,
  chargeEffect,
  DownstreamLedger,
  type EffectKind,
  type SendFault,
} from "../../../../test/support/downstream-ledger.ts";
import type { Codec, CodecContext } from "../codec.ts";
import type { Effect, EffectOptions } from "../effects/effect.ts";
import { EffectRefused, isLatchkeyError, NotExecuted, StoreError } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import { leaseRescuer } from "../maintenance/lease-rescuer.ts";
import { outcomeReconciler } from "../maintenance/outcome-reconciler.ts";
import type { OwnedOperationOptions } from "../owned-operation.ts";
import type { CallStep } from "../stores/journal.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { manualPorts } from "../testing/manual-ports.ts";
import type { Run, RunAnswer, StepAttempt } from "./own-work.ts";

type Tx = MemoryTransaction;
type Options = Partial<OwnedOperationOptions<ChargeInput, Tx, "lease">>;
type Attempt = StepAttempt<Tx>;
const key = { tenant: "t", scope: "charge", key: "k" };
const request = { tenant: "t", key: "k", input: { amount: 5 } };
const leaseMs = 3_000;

interface Setting {
  readonly kind?: EffectKind;
  readonly effect?: Partial<EffectOptions<ChargeInput, Charge>>;
  readonly options?: Options;
  readonly codec?: Codec;
  readonly wrap?: (store: Store<Tx>) => Partial<Store<Tx>>;
}

/** Several processes over one store, one provider and one clock. */
function setUp(setting: Setting = {}) {
  const { kind = "provider" } = setting;
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const ledger = new DownstreamLedger({ deduplicates: kind === "provider" });
  const events: LatchkeyEvent[] = [];
  const sends: SendFault[] = [];
  const start = (run: Run<ChargeInput, Tx, "lease">, more: Setting = {}) => {
    const wrap = more.wrap ?? setting.wrap;
    const latchkey = createLatchkey<Tx>({
      store: { ...memory, ...wrap?.(memory) },
      ports,
      ...(setting.codec === undefined ? {} : { codec: setting.codec }),
      onEvent: (event) => events.push(event),
      logSecret: "secret",
    });
    const effect = {
      ...chargeEffect(ledger, kind, () => sends.shift() ?? "proceed"),
      ...setting.effect,
      ...more.effect,
    };
    const charge: Charging = latchkey.effect("charge", effect);
    const operation = latchkey.operation("charge", {
      execution: "lease",
      leaseEnd: "resume",
      leaseMs,
      version: "1",
      run,
      ...setting.options,
      ...more.options,
    });
    const submit = () => latchkey.run(operation, request);
    return {
      latchkey,
      charge,
      operation,
      submit,
      rescuer: leaseRescuer(latchkey),
      reconciler: outcomeReconciler(latchkey),
    };
  };
  const record = async () => (await memory.read(key)).record;
  const journal = async () => {
    const there = await record();
    return there === null ? null : memory.journal.read(key, there.id);
  };
  const types = () => events.map(({ type }) => type);
  /** Runs `task` while time goes on. */
  const inTime = async <T>(task: Promise<T>, ms = 30_000): Promise<T> => {
    const settled = task.then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    await ports.clock.advance(ms);
    const ended = await Promise.race([settled, new Promise<null>((resolve) => setImmediate(resolve, null))]);
    if (ended === null) throw new Error("It has not ended in that time");
    if ("error" in ended) throw ended.error;
    return ended.value;
  };
  return { ports, memory, ledger, events, sends, start, record, journal, types, inTime };
}

type Charging = Effect<ChargeInput, Charge>;
type Work = (attempt: Attempt, charge: Charging, input: ChargeInput) => Promise<RunAnswer>;

/** A process whose `run` is given its own effect. */
function processOf(world: ReturnType<typeof setUp>, work: Work, more: Setting = {}) {
  const started = world.start((input, attempt) => work(attempt, started.charge, input), more);
  return started;
}

/** Phase, call, last phase. */
const threeSteps: Work = async (attempt, effect, { amount }) => {
  const orderId = await attempt.phase("order", async (tx) => {
    await tx.insert("orders", { amount });
    return "order-1";
  });
  const charge = await attempt.call("charged", effect, { amount });
  return attempt.finish("settled", async (tx) => {
    await tx.insert("settled", { orderId, charge: charge.id });
    return { status: 201, body: { orderId, chargeId: charge.id } };
  });
};

const never = () => new Promise<never>(() => {});

/** A process whose writes are not heard of any more, once it has begun a step. */
const gone: Setting = {
  wrap: (store) => ({ renew: never, end: never, journal: { ...store.journal, endCall: never } }),
};

/** Nobody renews, and nothing comes back. */
const frozen = { wrap: () => ({ renew: () => new Promise<boolean>(() => {}) }) };

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

describe("a call", () => {
  const onlyCall = (attempt: Attempt, charge: Charging, input: ChargeInput) =>
    attempt.call("charged", charge, input).then((body) => ({ status: 201, body }));

  test("that is in doubt is sent again to a provider that de-duplicates: same key, same stored input", async () => {
    const world = setUp();
    world.sends.push("lost_after");
    const { submit } = processOf(world, async (attempt, charge, input) => {
      const sent = { ...input };
      const body = await attempt.call("charged", charge, sent);
      return { status: 201, body };
    });
    expect(await world.inTime(submit())).toMatchObject({ kind: "executed", value: { id: "ch_1" } });
    expect(world.ledger.requests).toHaveLength(2);
    expect(new Set(world.ledger.requests.map(({ key: sent }) => sent)).size).toBe(1);
    expect(world.ledger.charges).toHaveLength(1);
  });

  test("resumed with another input sends the stored one", async () => {
    const world = setUp();
    let amount = 5;
    world.sends.push("lost_before", "lost_before");
    const { submit, reconciler } = processOf(world, (attempt, charge) =>
      onlyCall(attempt, charge, { amount }),
    );
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "unknown", retryAfterMs: 1_000 });
    amount = 7;
    await world.ports.clock.advance(1_000);
    expect(await reconciler.runOnce()).toMatchObject({ settled: 1 });
    expect(await world.inTime(submit())).toMatchObject({ kind: "executed", value: { amount: 5 } });
    expect(world.ledger.requests).toMatchObject([{ amount: 5 }]);
  });

  test.each<[EffectKind, number | null]>([
    ["none", null],
    ["lookup", 1_000],
    ["close", 1_000],
  ])(
    "of kind %s that is in doubt is never sent again by the attempt, whatever run makes of it",
    async (kind, retryAfterMs) => {
      const world = setUp({ kind });
      world.sends.push("lost_after");
      const { submit } = processOf(world, async (attempt, charge, input) => {
        const first = await attempt.call("charged", charge, input).catch((error: unknown) => error);
        const second = await attempt.phase("after", async () => 1).catch((error: unknown) => error);
        return { body: [isLatchkeyError(first) && first.code, isLatchkeyError(second) && second.code] };
      });
      expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "unknown", retryAfterMs });
      expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "call-in-doubt" });
      expect((await world.journal())?.steps).toMatchObject([{ name: "charged", state: "started", sends: 1 }]);
      expect(world.events).toContainEqual(
        expect.objectContaining({
          type: "call_in_doubt",
          step: "charged",
          effect: "charge",
          because: "call-in-doubt",
        }),
      );
      expect(await submit()).toMatchObject({ kind: "unknown" });
      expect(world.ledger.requests).toHaveLength(1);
    },
  );

  test("that takes longer than its limit is in doubt; what it gives later settles it, and a worker goes on", async () => {
    const world = setUp({ kind: "lookup" });
    const gate = Promise.withResolvers<SendFault>();
    const slow = chargeEffect(world.ledger, "lookup", () => gate.promise);
    const { submit, rescuer } = processOf(world, onlyCall, { effect: slow });
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "unknown" });
    gate.resolve("proceed");
    await world.ports.clock.advance(10);
    expect(await world.record()).toMatchObject({ state: "retryable" });
    expect(await world.memory.settlement.audit(key)).toMatchObject([
      { event: "settle_call", actor: "owner", proof: "owner" },
    ]);
    expect(await rescuer.runOnce()).toMatchObject({ resumed: 1 });
    expect(await submit()).toMatchObject({ kind: "replay", value: { id: "ch_1" } });
    expect(world.ledger.requests).toHaveLength(1);
  });

  test("that provably did not happen is tried again, and then throws what the effect threw", async () => {
    const world = setUp({ kind: "none", effect: { retry: { attempts: 2, backoffMs: 10 } } });
    let sent = 0;
    const down = new NotExecuted({ message: "down" });
    const { submit } = processOf(
      world,
      async (attempt, charge, input) => {
        await attempt.phase("order", async () => 1);
        return onlyCall(attempt, charge, input);
      },
      {
        effect: {
          execute: async (input, call) =>
            ++sent < 4 ? Promise.reject(down) : world.ledger.charge(call.key, input),
        },
      },
    );
    await expect(world.inTime(submit(), 900)).rejects.toBe(down);
    expect(await world.record()).toMatchObject({ state: "retryable" });
    expect((await world.journal())?.steps[1]).toMatchObject({ state: "not_executed", sends: 2 });
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "executed" });
    expect(world.ledger.charges).toHaveLength(1);
  });

  test("that did not happen this time may have happened before", async () => {
    const world = setUp();
    let sent = 0;
    const { submit } = processOf(world, onlyCall, {
      effect: {
        isNotExecuted: (error) => String(error).includes("refused"),
        execute: async (input, call) => {
          sent += 1;
          if (sent > 1) throw new Error("connection refused");
          world.ledger.charge(call.key, input);
          throw new Error("socket hang up");
        },
      },
    });
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "unknown" });
    expect((await world.journal())?.steps).toMatchObject([{ state: "started", sends: 2 }]);
  });

  test("run has gone on past a call that did not happen: a resumed attempt does not make it after all", async () => {
    const world = setUp({ kind: "none", effect: { retry: { attempts: 1 } } });
    let down = true;
    const execute: EffectOptions<ChargeInput, Charge>["execute"] = async (input, call) => {
      if (down) throw new NotExecuted();
      return world.ledger.charge(call.key, input);
    };
    const { submit } = processOf(
      world,
      async (attempt, charge, input) => {
        const charged = await attempt.call("charged", charge, input).catch((error: unknown) => {
          if (error instanceof NotExecuted) return null;
          throw error;
        });
        if (charged === null) await attempt.phase("invoice", (tx) => tx.insert("invoices", {}));
        if (down) throw new Error("again");
        return { body: { charged } };
      },
      { effect: { execute } },
    );
    await expect(world.inTime(submit(), 900)).rejects.toThrow("again");
    down = false;
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "executed", value: { charged: null } });
    expect(world.ledger.charges).toHaveLength(0);
    expect(world.memory.rows("invoices")).toHaveLength(1);
  });

  test("that is refused throws the same on every attempt, without a second send", async () => {
    const world = setUp({ kind: "none" });
    const seen: unknown[] = [];
    let fails = true;
    const { submit } = processOf(
      world,
      async (attempt, charge, input) => {
        const refusal = await attempt.call("charged", charge, input).catch((error: unknown) => error);
        if (!(refusal instanceof EffectRefused)) throw refusal;
        seen.push([refusal.message, refusal.detail]);
        if (fails) throw new Error("again");
        return { status: 402, body: refusal.detail };
      },
      {
        effect: {
          execute: async () =>
            Promise.reject(Object.assign(new Error("card declined"), { detail: { code: "declined" } })),
          isRefused: (error) => String(error).includes("declined"),
        },
      },
    );
    await expect(world.inTime(submit(), 900)).rejects.toThrow("again");
    fails = false;
    expect(await world.inTime(submit(), 900)).toMatchObject({
      kind: "executed",
      status: 402,
      value: { code: "declined" },
    });
    expect(seen).toEqual([
      ["card declined", { code: "declined" }],
      ["card declined", { code: "declined" }],
    ]);
    expect((await world.journal())?.steps).toMatchObject([{ state: "refused", sends: 1 }]);
  });

  test("a refusal that run lets through is the final answer; any other error of the provider is none", async () => {
    const world = setUp({
      kind: "none",
      effect: { execute: async () => Promise.reject(new EffectRefused({ message: "declined" })) },
    });
    const { submit } = processOf(world, onlyCall);
    const first = await world.inTime(submit(), 900);
    expect(first).toMatchObject({
      kind: "executed",
      status: 502,
      value: { code: "effect-refused", detail: "declined" },
    });
    expect(await world.record()).toMatchObject({ state: "failed", lastErrorCode: "effect-refused" });
    expect(await submit()).toMatchObject({ kind: "replay", status: 502 });
  });

  test("whose result has no JSON form has happened, and waits for a person", async () => {
    const world = setUp({ kind: "none", effect: { execute: async () => 1n as never } });
    expect(await world.inTime(processOf(world, onlyCall).submit(), 900)).toMatchObject({ kind: "unknown" });
    expect(await world.record()).toMatchObject({ lastErrorCode: "result-not-stored", reconcileAfter: null });
  });

  test("that is refused with a detail without JSON form is refused all the same", async () => {
    const world = setUp({
      kind: "none",
      effect: {
        isRefused: () => true,
        execute: async () => Promise.reject(Object.assign(new Error("declined"), { detail: 1n })),
      },
    });
    const { submit } = processOf(world, async (attempt, charge, input) => ({
      body: await attempt.call("charged", charge, input).catch((error: EffectRefused) => error.message),
    }));
    expect(await world.inTime(submit())).toMatchObject({ kind: "executed", value: "declined" });
    expect((await world.journal())?.steps).toMatchObject([{ state: "refused" }]);
  });

  test.each(["the store fails", "its input cannot be read"])(
    "in doubt since an earlier attempt stops this one, whatever run makes of it, when %s",
    async (what) => {
      let unreadable = false;
      const decode = (bytes: Uint8Array) => {
        if (unreadable && Buffer.from(bytes).includes("charged input")) throw new Error("no such key");
        return bytes;
      };
      const world = setUp({ codec: { encode: (bytes) => bytes, decode } });
      const work: Work = async (attempt, charge, { amount }) => {
        try {
          await attempt.call("charged", charge, { amount, note: "charged input" } as ChargeInput);
          return { status: 201 };
        } catch {
          await attempt.call("second", charge, { amount: 1 });
          return { status: 402, body: "not paid" };
        }
      };
      world.sends.push("crash_after");
      void processOf(world, work, gone).submit();
      await world.ports.clock.advance(leaseMs);
      expect(world.ledger.charges).toHaveLength(1);
      unreadable = what !== "the store fails";
      const next = processOf(world, work, {
        wrap: (store) => ({
          journal: {
            ...store.journal,
            startCall: async (owner, intent) => {
              if (!unreadable && intent.name === "charged") throw new StoreError("not_sent");
              return store.journal.startCall(owner, intent);
            },
          },
        }),
      });
      expect(await world.inTime(next.submit())).toMatchObject({ kind: "unknown" });
      expect((await world.journal())?.steps).toMatchObject([{ name: "charged", state: "started" }]);
      expect(world.ledger.charges).toHaveLength(1);
    },
  );

  test("is not sent again after an end whose reply was lost: it may land while the next send is under way", async () => {
    const world = setUp({ kind: "none" });
    let heldUp: (() => Promise<boolean>) | null = null;
    let calls = 0;
    const work: Work = async (attempt, charge, input) => ({
      body: await attempt.call("charged", charge, input),
    });
    const first = processOf(world, work, {
      effect: {
        execute: async (input, call) => {
          calls += 1;
          if (calls === 1) throw new NotExecuted();
          const charge = world.ledger.charge(call.key, input);
          await heldUp?.();
          return calls === 2 ? never() : charge;
        },
      },
      wrap: (store) => ({
        renew: never,
        journal: {
          ...store.journal,
          endCall: async (...args) => {
            if (heldUp !== null) return store.journal.endCall(...args);
            heldUp = () => store.journal.endCall(...args);
            throw new StoreError("in_doubt");
          },
        },
      }),
    });
    await expect(world.inTime(first.submit(), leaseMs)).rejects.toMatchObject({ code: "not-executed" });
    expect(world.ledger.requests).toHaveLength(0);
    await world.inTime(processOf(world, work).submit());
    expect(world.ledger.requests).toHaveLength(1);
  });

  test("whose intent took long to be written is judged by when it is sent", async () => {
    const world = setUp();
    const dedupeWindowMs = 5_000;
    const work: Work = async (attempt, charge, input) => ({
      body: await attempt.call("charged", charge, input),
    });
    world.sends.push("crash_after");
    void processOf(world, work, gone).submit();
    await world.ports.clock.advance(leaseMs);
    const before = world.ledger.requests.length;
    const slow = processOf(world, work, {
      effect: { dedupeWindowMs },
      wrap: (store) => ({
        journal: {
          ...store.journal,
          startCall: async (...args) => {
            const started = await store.journal.startCall(...args);
            await new Promise<void>((resolve) => world.ports.clock.startTimer(2_000, resolve));
            return started;
          },
        },
      }),
    });
    expect(await world.inTime(slow.submit())).toMatchObject({ kind: "unknown" });
    expect(world.ledger.requests).toHaveLength(before);
    expect(await world.record()).toMatchObject({ lastErrorCode: "dedupe-window-over" });
  });

  test("outside the provider's window is not sent again", async () => {
    const world = setUp({ effect: { dedupeWindowMs: 10_000, retry: { attempts: 1 } } });
    world.sends.push("lost_before");
    const { submit, reconciler } = processOf(world, onlyCall);
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "unknown" });
    await world.ports.clock.advance(9_600);
    expect(await reconciler.runOnce()).toMatchObject({ deadLettered: 1 });
    expect(await world.record()).toMatchObject({ state: "unknown", reconcileAfter: null });
    expect(world.ledger.requests).toHaveLength(0);
    expect(world.events).toContainEqual(
      expect.objectContaining({ type: "dead_letter", because: "dedupe-window-over" }),
    );
  });

  test("settled inside the window and resumed outside it is in doubt again", async () => {
    const world = setUp({ effect: { dedupeWindowMs: 10_000, retry: { attempts: 1 } } });
    world.sends.push("lost_before");
    const { submit, reconciler } = processOf(world, onlyCall);
    await world.inTime(submit(), 900);
    await world.ports.clock.advance(1_000);
    expect(await reconciler.runOnce()).toMatchObject({ settled: 1 });
    await world.ports.clock.advance(9_000);
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "unknown" });
    expect(await world.record()).toMatchObject({ lastErrorCode: "dedupe-window-over" });
    expect(world.ledger.requests).toHaveLength(0);
  });

  test("starts only while the lease certainly holds, also when no timer has fired yet", async () => {
    const world = setUp({ kind: "none" });
    const store = world.memory;
    const { submit } = processOf(world, onlyCall, {
      wrap: () => ({
        ...frozen.wrap(),
        journal: {
          ...store.journal,
          // The process is frozen between the intent and the send: the clock runs on, its timers have not fired.
          startCall: async (...given) => {
            const started = await store.journal.startCall(...given);
            const now = world.ports.clock.monotonicMs;
            world.ports.clock.monotonicMs = () => now() + leaseMs;
            return started;
          },
        },
      }),
    });
    const first = submit().catch(String);
    await world.ports.clock.advance(20_000);
    await first;
    expect(world.ledger.requests).toHaveLength(0);
    expect((await world.journal())?.steps).toMatchObject([{ state: "not_executed" }]);
  });

  test("no more than its effect's places are under way at once", async () => {
    const world = setUp({ kind: "none" });
    let [under, most] = [0, 0];
    const gate = Promise.withResolvers<void>();
    const started = world.start(async () => ({}), {
      effect: {
        limits: { concurrency: 2, timeoutMs: 5_000 },
        execute: async (input) => {
          under += 1;
          most = Math.max(most, under);
          await gate.promise;
          under -= 1;
          return { id: "x", amount: input.amount };
        },
      },
    });
    const { charge } = started;
    const many = started.latchkey.operation("many", {
      execution: "lease",
      version: "1",
      run: (input: ChargeInput, attempt) => onlyCall(attempt, charge, input),
    });
    const all = Promise.all(
      [1, 2, 3, 4, 5].map((n) =>
        started.latchkey.run(many, { tenant: "t", key: `k${n}`, input: { amount: n } }),
      ),
    );
    await world.ports.clock.advance(100);
    expect(under).toBe(2);
    gate.resolve();
    expect(await world.inTime(all, 100)).toHaveLength(5);
    expect(most).toBe(2);
  });
});

describe("a lease of an owned attempt", () => {
  test("is kept through long phases and calls", async () => {
    const world = setUp({ kind: "none" });
    const { clock } = world.ports;
    const wait = (ms: number) => new Promise<void>((resolve) => void clock.startTimer(ms, resolve));
    const { submit } = processOf(
      world,
      async (attempt, charge, input) => {
        await attempt.phase("slow", async (tx) => {
          for (let turn = 0; turn < 10; turn++) {
            await wait(1_000);
            await tx.rows("orders");
          }
        });
        return { body: await attempt.call("charged", charge, input) };
      },
      {
        effect: {
          limits: { timeoutMs: 20_000 },
          execute: (input, call) => wait(10_000).then(() => world.ledger.charge(call.key, input)),
        },
      },
    );
    expect(await world.inTime(submit())).toMatchObject({ kind: "executed" });
    expect(world.types()).not.toContain("lease_lost");
  });

  test("lost: the owner can neither phase, call, complete, nor answer with its own", async () => {
    const world = setUp({ kind: "none" });
    const gate = Promise.withResolvers<void>();
    const codes: unknown[] = [];
    const note = (error: unknown) => codes.push(isLatchkeyError(error) ? error.code : error);
    const zombie = processOf(
      world,
      async (attempt, charge, input) => {
        await gate.promise;
        expect(attempt.signal.aborted).toBe(true);
        await attempt.phase("zombie", (tx) => tx.insert("zombies", {})).catch(note);
        await attempt.call("charged", charge, input).catch(note);
        await attempt.finish("end", async () => ({ status: 200 })).catch(note);
        return { status: 299, body: "zombie" };
      },
      frozen,
    );
    const first = zombie.submit();
    await world.ports.clock.advance(leaseMs);
    const winner = processOf(world, async () => ({ status: 201, body: "winner" }));
    expect(await winner.submit()).toMatchObject({ kind: "executed", value: "winner" });
    gate.resolve();
    expect(await world.inTime(first)).toMatchObject({ kind: "replay", status: 201, value: "winner" });
    expect(codes).toEqual(["attempt-lost", "attempt-lost", "attempt-lost"]);
    expect(world.ledger.requests).toHaveLength(0);
    expect(world.memory.rows("zombies")).toHaveLength(0);
  });

  test("lost to another attempt without its own clock noticing: the fence refuses phase, call and end", async () => {
    for (const step of ["phase", "call", "finish", "end"] as const) {
      const world = setUp({ kind: "none" });
      const gate = Promise.withResolvers<void>();
      const zombie = processOf(
        world,
        async (attempt, charge, input) => {
          await gate.promise;
          if (step === "phase") await attempt.phase("p", (tx) => tx.insert("zombies", {}));
          if (step === "call") await attempt.call("charged", charge, input);
          if (step === "finish")
            return attempt.finish("f", async (tx) => {
              await tx.insert("zombies", {});
              return { status: 299 };
            });
          return { status: 299 };
        },
        { wrap: () => ({ renew: async () => true }) },
      );
      const first = zombie.submit();
      await world.ports.clock.advance(leaseMs);
      const winner = processOf(world, async () => ({ status: 201, body: "winner" }));
      await winner.submit();
      gate.resolve();
      expect(await world.inTime(first), step).toMatchObject({ kind: "replay", status: 201 });
      expect(world.ledger.requests, step).toHaveLength(0);
      expect(world.memory.rows("zombies"), step).toHaveLength(0);
    }
  });

  test("that ended under reconcile: the late owner settles its own whole answer, nobody else's", async () => {
    const world = setUp({ options: { leaseEnd: "reconcile" } });
    const gate = Promise.withResolvers<void>();
    const late = processOf(world, async () => gate.promise.then(() => ({ status: 201, body: "mine" })), {
      wrap: () => ({ renew: async () => true }),
    });
    const first = late.submit();
    await world.ports.clock.advance(leaseMs);
    expect(await late.rescuer.runOnce()).toMatchObject({ rescued: 1 });
    expect(await world.record()).toMatchObject({
      state: "unknown",
      lastErrorCode: "lease-ended",
      reconcileAfter: expect.any(Number),
    });
    gate.resolve();
    expect(await world.inTime(first)).toMatchObject({ kind: "executed", status: 201, value: "mine" });
    expect(await world.record()).toMatchObject({ state: "completed" });
  });

  test.each(["unknown by then", "unnoticed"])(
    "lost, and run swallows that: what its steps have not done is not completed (%s)",
    async (when) => {
      const world = setUp({ options: { leaseEnd: "reconcile" } });
      const gate = Promise.withResolvers<void>();
      const { submit, rescuer } = processOf(
        world,
        async (attempt) => {
          await attempt.phase("first", (tx) => tx.insert("first", {}));
          await gate.promise;
          await attempt.phase("second", (tx) => tx.insert("second", {})).catch(() => {});
          return { status: 201, body: "all done" };
        },
        frozen,
      );
      const first = submit().catch((error: unknown) => error);
      await world.ports.clock.advance(when === "unnoticed" ? leaseMs * 0.95 : leaseMs);
      if (when !== "unnoticed") expect(await rescuer.runOnce()).toMatchObject({ rescued: 1 });
      gate.resolve();
      const said = await world.inTime(first);
      expect(said).toMatchObject(when === "unnoticed" ? { code: "attempt-lost" } : { kind: "unknown" });
      expect(await world.record()).toMatchObject({ state: when === "unnoticed" ? "retryable" : "unknown" });
      expect(world.memory.rows("second")).toHaveLength(0);
    },
  );

  test("a job that kills its owner every time ends unknown, not in a loop", async () => {
    const world = setUp({ options: { attemptsMax: 3 } });
    let starts = 0;
    const deadly = processOf(
      world,
      async () => {
        starts += 1;
        return new Promise<never>(() => {});
      },
      frozen,
    );
    void deadly.submit();
    for (let round = 0; round < 10; round++) {
      await world.ports.clock.advance(leaseMs);
      // It never comes back: the process that runs it dies.
      void deadly.rescuer.runOnce();
      await world.ports.clock.advance(1);
    }
    expect(starts).toBe(3);
    expect(await world.record()).toMatchObject({
      state: "unknown",
      lastErrorCode: "attempts-spent",
      reconcileAfter: null,
    });
    expect(await deadly.reconciler.runOnce()).toMatchObject({ found: 0 });
  });

  test("an attempt over its time limit keeps its steps, and nothing of it goes on", async () => {
    const world = setUp({ kind: "none", options: { attemptLimitMs: 5_000 } });
    let after: unknown = null;
    const gate = Promise.withResolvers<void>();
    const { submit } = processOf(world, async (attempt) => {
      await attempt.phase("order", (tx) => tx.insert("orders", {}));
      await gate.promise;
      after = await attempt.phase("late", (tx) => tx.insert("orders", {})).catch((error: unknown) => error);
      return {};
    });
    await expect(world.inTime(submit())).rejects.toMatchObject({ code: "attempt-limit" });
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "attempt-limit" });
    gate.resolve();
    await world.ports.clock.advance(1);
    expect(after).toMatchObject({ code: "attempt-lost" });
    expect(world.memory.rows("orders")).toHaveLength(1);
  });
});

describe("a phase", () => {
  const once = async (attempt: Attempt) => {
    const said = await attempt.phase("p", async (tx) => {
      await tx.insert("orders", {});
      return "said";
    });
    return { body: said };
  };

  /** Replaces the store's phase for the first `times` commits. */
  function losing(store: Store<Tx>, times: number, lands: boolean): Partial<Store<Tx>> {
    const { transactions } = store;
    if (transactions === null) throw new TypeError("no transactions");
    let left = times;
    return {
      transactions: {
        ...transactions,
        async phase(phase, work) {
          if (left-- <= 0) return transactions.phase(phase, work);
          if (lands) {
            const { value } = await transactions.phase(phase, work);
            return { kind: "in_doubt", value, error: new Error("socket") };
          }
          const outcome = await transactions.phase(phase, async (open) => ({
            end: "rollback",
            value: (await work(open)).value,
          }));
          return { kind: "in_doubt", value: outcome.value, error: new Error("socket") };
        },
      },
    };
  }

  test.each([true, false])(
    "whose COMMIT is in doubt is settled under a new token (landed: %s)",
    async (lands) => {
      const world = setUp();
      const { submit } = processOf(world, once, { wrap: (store) => losing(store, 1, lands) });
      expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "executed", value: "said" });
      expect(world.memory.rows("orders")).toHaveLength(1);
      expect(world.events).toContainEqual(
        expect.objectContaining({ type: "commit_in_doubt", resolved: lands ? "committed" : "rolled_back" }),
      );
      expect(world.types()).not.toContain("lease_lost");
    },
  );

  test.each([true, false])("the last one's, too (landed: %s)", async (lands) => {
    const world = setUp();
    const { submit } = processOf(
      world,
      (attempt) =>
        attempt.finish("f", async (tx) => {
          await tx.insert("orders", {});
          return { status: 201, body: "end" };
        }),
      { wrap: (store) => losing(store, 1, lands) },
    );
    expect(await world.inTime(submit(), 900)).toMatchObject({ kind: "executed", status: 201, value: "end" });
    expect(await submit()).toMatchObject({ kind: "replay", status: 201, value: "end" });
    expect(world.memory.rows("orders")).toHaveLength(1);
    expect(world.events).toContainEqual(
      expect.objectContaining({ type: "commit_in_doubt", resolved: lands ? "committed" : "rolled_back" }),
    );
  });

  test("that cannot be settled stops the attempt; it is resumed from what is there", async () => {
    const world = setUp();
    const { submit } = processOf(world, once, {
      wrap: (store) => ({
        ...losing(store, 1, true),
        journal: { ...store.journal, refence: () => Promise.reject(new StoreError("in_doubt")) },
      }),
    });
    expect(await world.inTime(submit(), 6_000)).toMatchObject({ kind: "commit_in_doubt" });
    expect(world.types(), "one doubt is told once").toEqual(["commit_in_doubt"]);
    await world.ports.clock.advance(leaseMs);
    expect(await world.inTime(processOf(world, once).submit())).toMatchObject({
      kind: "executed",
      value: "said",
    });
    expect(world.memory.rows("orders")).toHaveLength(1);
  });

  test.each<readonly [string, (attempt: Attempt) => RunAnswer, unknown]>([
    ["answers 503", () => ({ status: 503 }), { error: expect.any(TypeError) }],
    ["answers 429", () => ({ status: 429 }), { error: expect.any(TypeError) }],
    [
      "is released",
      (attempt) => {
        attempt.release();
        return {};
      },
      { result: expect.objectContaining({ kind: "executed", status: 201 }) },
    ],
  ])("that %s has undone its work: run cannot complete without it", async (_, answerOf, told) => {
    const world = setUp();
    const ending = (last: (attempt: Attempt) => RunAnswer): Work => {
      return async (attempt) => {
        await attempt.phase("order", async (tx) => tx.insert("orders", {}));
        await attempt.finish("settled", async (tx) => {
          await tx.insert("settled", {});
          return last(attempt);
        });
        return { status: 201 };
      };
    };
    const stores = () => [world.memory.rows("orders").length, world.memory.rows("settled").length];
    const first = processOf(world, ending(answerOf)).submit();
    const ended = await first.then(
      (result) => ({ result }),
      (error: unknown) => ({ error }),
    );
    expect(ended).toEqual(told);
    expect([await world.record(), stores()]).toMatchObject([{ state: "retryable" }, [1, 0]]);
    const second = await processOf(
      world,
      ending(() => ({ status: 202 })),
    ).submit();
    expect(second, "what its last phase has answered").toMatchObject({ kind: "executed", status: 202 });
    expect(stores()).toEqual([1, 1]);
  });

  test("is run again after a serialization failure, and not for ever", async () => {
    const world = setUp();
    let failures = 3;
    let runs = 0;
    const { submit } = processOf(world, async (attempt) => ({
      body: await attempt.phase("p", async () => {
        runs += 1;
        if (failures-- > 0) throw Object.assign(new Error("serialize"), { code: "40001" });
        return runs;
      }),
    }));
    expect(await world.inTime(submit())).toMatchObject({ value: 4 });
    expect(runs).toBe(4);
  });

  test("that never gets through is given up", async () => {
    const world = setUp();
    const { submit } = processOf(world, (attempt) =>
      attempt.phase("p", () => Promise.reject(Object.assign(new Error("serialize"), { code: "40P01" }))),
    );
    await expect(world.inTime(submit())).rejects.toThrow("serialize");
    expect(await world.record()).toBeNull();
    expect(world.types().filter((type) => type === "transaction_rerun")).toHaveLength(8);
  });

  test("that throws leaves nothing, and its error goes to run", async () => {
    const world = setUp();
    const { submit } = processOf(world, async (attempt) => {
      const error = await attempt
        .phase("p", async (tx) => {
          await tx.insert("orders", {});
          throw new Error("no stock");
        })
        .catch(String);
      return { status: 409, body: error };
    });
    expect(await submit()).toMatchObject({ kind: "executed", status: 409, value: "Error: no stock" });
    expect(world.memory.rows("orders")).toHaveLength(0);
  });

  test("revokes its tx", async () => {
    const world = setUp();
    let kept: Tx | null = null;
    const { submit } = processOf(world, async (attempt) => {
      await attempt.phase("p", async (tx) => {
        kept = tx;
      });
      return {};
    });
    await submit();
    await expect((kept as Tx | null)?.insert("orders", {})).rejects.toMatchObject({ code: "tx-revoked" });
  });
});

describe("a call under way", () => {
  const onlyCall: Work = async (attempt, charge, input) => ({
    status: 201,
    body: await attempt.call("charged", charge, input),
  });

  test("when the attempt's time is over is in doubt, and its signal aborts", async () => {
    const world = setUp({ kind: "none", options: { attemptLimitMs: 5_000 } });
    let signal: AbortSignal | null = null;
    const execute: EffectOptions<ChargeInput, Charge>["execute"] = (_, call) => {
      signal = call.signal;
      return new Promise<never>(() => {});
    };
    const { submit } = processOf(world, onlyCall, { effect: { execute, limits: { timeoutMs: 60_000 } } });
    expect(await world.inTime(submit())).toMatchObject({ kind: "unknown" });
    expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "call-in-doubt" });
    expect(signal).toMatchObject({ aborted: true });
  });

  test("is not repeated once the attempt's time is over", async () => {
    const world = setUp({
      options: { attemptLimitMs: 5_000 },
      effect: { retry: { attempts: 9, backoffMs: 20_000, backoffMaxMs: 20_000 } },
    });
    world.sends.push("lost_before");
    expect(await world.inTime(processOf(world, onlyCall).submit(), 60_000)).toMatchObject({
      kind: "unknown",
    });
    expect(world.ledger.requests).toHaveLength(0);
    expect((await world.journal())?.steps).toMatchObject([{ state: "started", sends: 1 }]);
    expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "attempt-limit" });
  });

  test("that a dead attempt has left is in doubt for the next one, whether it gets that far or not", async () => {
    const world = setUp({ kind: "lookup" });
    let far = true;
    const work: Work = async (attempt, charge, input) => {
      await attempt.phase("order", async () => 1);
      if (!far) throw new Error("not so far");
      return onlyCall(attempt, charge, input);
    };
    const hangs = { execute: () => new Promise<never>(() => {}), limits: { timeoutMs: 600_000 } };
    void processOf(world, work, { ...gone, effect: hangs }).submit();
    await world.ports.clock.advance(leaseMs);
    far = false;
    expect(await world.inTime(processOf(world, work).submit(), 900)).toMatchObject({
      kind: "unknown",
      retryAfterMs: 2_000,
    });
    expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "call-in-doubt" });
    expect(world.ledger.requests).toHaveLength(0);

    const direct = setUp({ kind: "none" });
    void processOf(direct, onlyCall, { ...gone, effect: hangs }).submit();
    await direct.ports.clock.advance(leaseMs);
    expect(await direct.inTime(processOf(direct, onlyCall).submit(), 900)).toMatchObject({
      kind: "unknown",
      retryAfterMs: null,
    });
    expect(await direct.record()).toMatchObject({ lastErrorCode: "call-in-doubt" });
    expect(direct.ledger.requests).toHaveLength(0);
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

describe("the last phase", () => {
  const finishes: Work = (attempt) =>
    attempt.finish("f", async (tx) => {
      await tx.insert("orders", {});
      return { status: 201, body: "end" };
    });

  /** The commit takes effect at once; its reply comes when `reply` resolves. */
  function slowly(store: Store<Tx>, reply: Promise<void>): Partial<Store<Tx>> {
    const { transactions } = store;
    if (transactions === null) throw new TypeError("no transactions");
    const phase: typeof transactions.phase = async (request, work) => {
      const outcome = await transactions.phase(request, work);
      await reply;
      return outcome;
    };
    return { transactions: { ...transactions, phase } };
  }

  test("has completed the attempt: a beat that meets that is no lost lease", async () => {
    const world = setUp();
    const reply = Promise.withResolvers<void>();
    const { submit } = processOf(world, finishes, { wrap: (store) => slowly(store, reply.promise) });
    const first = submit();
    await world.ports.clock.advance(leaseMs);
    reply.resolve();
    expect(await world.inTime(first, 10)).toMatchObject({ kind: "executed", status: 201 });
    expect(world.types()).toEqual(["executed"]);
  });

  test("has completed the attempt, and run goes on: no lost lease either, and no other answer", async () => {
    const world = setUp();
    const gate = Promise.withResolvers<void>();
    const { submit } = processOf(world, async (attempt, charge, input) => {
      await finishes(attempt, charge, input);
      await gate.promise;
      throw new Error("too late");
    });
    const first = submit();
    await world.ports.clock.advance(2 * leaseMs);
    gate.resolve();
    expect(await world.inTime(first, 10)).toMatchObject({ kind: "executed", value: "end" });
    expect(world.types()).toEqual(["attempt_failed", "executed"]);
  });

  test("in doubt, and somebody else has completed the record meanwhile: theirs is the answer", async () => {
    const world = setUp();
    const { transactions } = world.memory;
    if (transactions === null) throw new TypeError("no transactions");
    const gate = Promise.withResolvers<void>();
    const zombie = processOf(world, finishes, {
      wrap: () => ({
        renew: async () => true,
        transactions: {
          ...transactions,
          phase: async (_, work) => {
            const abandoned = await transactions.phase(_, async (open) => ({
              end: "rollback",
              value: (await work(open)).value,
            }));
            await gate.promise;
            return { kind: "in_doubt", value: abandoned.value, error: new Error("socket") };
          },
        },
      }),
    });
    const first = zombie.submit();
    await world.ports.clock.advance(leaseMs);
    await processOf(world, async () => ({ status: 200, body: "winner" })).submit();
    gate.resolve();
    expect(await world.inTime(first)).toMatchObject({ kind: "replay", value: "winner" });
    expect(world.memory.rows("orders")).toHaveLength(0);
  });

  test("whose fence is lost is worked once", async () => {
    const world = setUp();
    const gate = Promise.withResolvers<void>();
    let works = 0;
    const zombie = processOf(
      world,
      (attempt) =>
        attempt.finish("f", async () => {
          works += 1;
          await gate.promise;
          return {};
        }),
      { wrap: () => ({ renew: async () => true }) },
    );
    const first = zombie.submit();
    await world.ports.clock.advance(leaseMs);
    await processOf(world, async () => ({ body: "winner" })).submit();
    gate.resolve();
    expect(await world.inTime(first)).toMatchObject({ kind: "replay", value: "winner" });
    expect(works).toBe(1);
  });
});

describe("a new token", () => {
  test("is not taken for somebody else's by a beat under the old one", async () => {
    const world = setUp();
    const { transactions, journal } = world.memory;
    if (transactions === null) throw new TypeError("no transactions");
    let commits = 0;
    const reply = Promise.withResolvers<void>();
    const { submit } = processOf(
      world,
      async (attempt) => ({ body: await attempt.phase("p", async () => "said") }),
      {
        wrap: () => ({
          transactions: {
            ...transactions,
            async phase(request, work) {
              const outcome = await transactions.phase(request, work);
              commits += 1;
              return commits === 1
                ? { kind: "in_doubt", value: outcome.value, error: new Error("socket") }
                : outcome;
            },
          },
          journal: {
            ...journal,
            async refence(...given) {
              const done = await journal.refence(...given);
              await reply.promise;
              return done;
            },
          },
        }),
      },
    );
    const first = submit();
    await world.ports.clock.advance(1_500);
    reply.resolve();
    expect(await world.inTime(first, 10)).toMatchObject({ kind: "executed", value: "said" });
    expect(world.types()).toEqual(["commit_in_doubt", "executed"]);
  });
});

test("a phase that is cut off by a lost lease says that the attempt is lost", async () => {
  const world = setUp();
  let code: unknown = null;
  const { submit } = processOf(
    world,
    async (attempt) => {
      code = await attempt
        .phase("p", () => new Promise<never>(() => {}))
        .catch((error: unknown) => isLatchkeyError(error) && error.code);
      return {};
    },
    frozen,
  );
  await world.inTime(submit()).catch(() => {});
  expect(code).toBe("attempt-lost");
});

test("an answer that is too large to keep is said once, and its repetition says that it is not kept", async () => {
  const world = setUp({ options: { answerLimitBytes: 5 } });
  const { submit } = processOf(world, async () => ({ status: 201, body: "larger than that" }));
  expect(await submit()).toMatchObject({ kind: "executed", value: "larger than that" });
  expect(await submit()).toMatchObject({ kind: "answer_not_stored" });
});
