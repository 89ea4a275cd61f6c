/** Calls of operations that own their work. */
import { describe, expect, test } from "vitest";
import {
  type Attempt,
  type Charging,
  frozen,
  gone,
  key,
  leaseMs,
  never,
  processOf,
  setUp,
  type Work,
} from "../../../../../test/support/charging-world.ts";
import {
  type Charge,
  type ChargeInput,
  chargeEffect,
  type EffectKind,
  type SendFault,
} from "../../../../../test/support/downstream-ledger.ts";
import type { EffectOptions } from "../../effects/effect.ts";
import { EffectRefused, isLatchkeyError, NotExecuted, StoreError } from "../../errors.ts";

describe("a call", () => {
  const onlyCall = (attempt: Attempt, charge: Charging, input: ChargeInput) =>
    attempt.call("charged", charge, input).then((body) => ({ status: 201, body }));

  test("that is in doubt is sent again to a provider that deduplicates: same key, same stored input", async () => {
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

  test("is sent again after pauses that double up to backoffMaxMs, whatever the jitter", async () => {
    const sentAtMs: number[] = [];
    const down = new NotExecuted({ message: "down" });
    const world = setUp({
      random: { fraction: () => 1 },
      effect: {
        retry: { attempts: 4, backoffMs: 300, backoffMaxMs: 500 },
        execute: () => {
          sentAtMs.push(world.ports.clock.monotonicMs());
          return Promise.reject(down);
        },
      },
    });
    await expect(world.inTime(processOf(world, onlyCall).submit())).rejects.toBe(down);
    expect(sentAtMs.slice(1).map((atMs, sent) => atMs - (sentAtMs[sent] ?? 0))).toEqual([300, 500, 500]);
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
    "of kind %s that is in doubt is never sent again by the attempt, whatever run does with the error",
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

  test("that takes longer than its limit is in doubt; its later result settles it, and a worker continues", async () => {
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

  test("that provably did not happen is tried again, and then throws the effect's error", async () => {
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

  test("that did not happen this time may have happened in an earlier attempt", async () => {
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

  test("if run has continued past a call that did not happen, a resumed attempt does not send it", async () => {
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

  test("a refusal that run lets through is the final answer; any other error of the provider is not", async () => {
    const world = setUp({
      kind: "none",
      effect: { execute: async () => Promise.reject(new EffectRefused({ message: "declined" })) },
    });
    const { submit } = processOf(world, onlyCall);
    const first = await world.inTime(submit(), 900);
    expect(first).toMatchObject({
      kind: "executed",
      status: 502,
      value: { code: "effect-refused", detail: "declined", safe_new_key: true },
    });
    expect(await world.record()).toMatchObject({ state: "failed", lastErrorCode: "effect-refused" });
    expect(await submit()).toMatchObject({ kind: "replay", status: 502 });
  });

  test("after a finished step, a refusal does not declare a new key safe", async () => {
    const world = setUp({
      kind: "none",
      effect: { execute: async () => Promise.reject(new EffectRefused({ message: "declined" })) },
    });
    const { submit } = processOf(world, async (attempt, charge) => {
      await attempt.phase("order", async () => {});
      return onlyCall(attempt, charge, { amount: 5 });
    });
    expect(await world.inTime(submit(), 900)).toMatchObject({
      status: 502,
      value: { code: "effect-refused", safe_new_key: false },
    });
  });

  test("whose result has no JSON form has happened, and waits for a person", async () => {
    const world = setUp({ kind: "none", effect: { execute: async () => 1n as never } });
    expect(await world.inTime(processOf(world, onlyCall).submit(), 900)).toMatchObject({ kind: "unknown" });
    expect(await world.record()).toMatchObject({ lastErrorCode: "result-not-stored", reconcileAfter: null });
  });

  test("that is refused with a detail without JSON form is still refused", async () => {
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
    "in doubt since an earlier attempt stops this one, whatever run does, when %s",
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

  test("is not sent again after an end whose reply was lost: the end may arrive during the next send", async () => {
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

  test("whose intent took long to be written is judged by the time of the send", async () => {
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

  test("starts only while the lease is certain to hold, also if no timer has fired yet", async () => {
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

  test("no more run at once than the effect's concurrency limit", async () => {
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

describe("a call under way", () => {
  const onlyCall: Work = async (attempt, charge, input) => ({
    status: 201,
    body: await attempt.call("charged", charge, input),
  });

  test("at the attempt's time limit is in doubt, and its signal aborts", async () => {
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

  test("is not repeated after the attempt's time limit", async () => {
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

  test("left by a dead attempt is in doubt for the next one, whether that reaches the call or not", async () => {
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
