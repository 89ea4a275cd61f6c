import { describe, expect, test } from "vitest";
import {
  type Charge,
  type ChargeInput,
  chargeEffect,
  DownstreamLedger,
  type EffectKind,
  type SendFault,
} from "../../../../test/support/downstream-ledger.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import type { Effect, EffectOptions } from "../effects/effect.ts";
import { createLatchkey } from "../latchkey.ts";
import type { OperationOptions } from "../operations/operation.ts";
import type { LookedUp, LookupQuestion, RunAnswer, StepAttempt } from "../operations/owned-work.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { leaseRescuer } from "./lease-rescuer.ts";
import { outcomeReconciler } from "./outcome-reconciler.ts";

const key = { tenant: "t", scope: "charge", key: "k" };
const request = { tenant: "t", key: "k", input: { amount: 5 } };

interface Setting {
  readonly kind: EffectKind;
  readonly effect?: Partial<EffectOptions<ChargeInput, Charge>>;
  readonly options?: OperationOptions<"lease">;
  readonly steps?: "order and call" | "call alone";
}

/** A charge whose first send is lost, so that its record is unknown. */
async function inDoubt(
  { kind, effect = {}, options = {}, steps }: Setting,
  fault: SendFault = "lost_before",
) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const ledger = new DownstreamLedger({ deduplicates: kind === "provider" });
  const events: LatchkeyEvent[] = [];
  const sends = kind === "provider" ? [fault, fault] : [fault];
  const latchkey = createLatchkey<MemoryTransaction>({
    store,
    ports,
    onEvent: (event) => events.push(event),
  });
  const made = { ...chargeEffect(ledger, kind, () => sends.shift() ?? "proceed"), ...effect };
  const charge: Effect<ChargeInput, Charge> = latchkey.effect("charge", made);
  const run = async (input: ChargeInput, attempt: StepAttempt<MemoryTransaction>): Promise<RunAnswer> => {
    if (steps !== "call alone") await attempt.phase("order", (tx) => tx.insert("orders", {}));
    return { status: 201, body: await attempt.call("charged", charge, input) };
  };
  const operation = latchkey.operation("charge", { execution: "lease", version: "1", run, ...options });
  const submit = () => latchkey.run(operation, request);
  const first = submit();
  await ports.clock.advance(900);
  expect(await first).toMatchObject({ kind: "unknown" });
  const record = async () => (await store.read(key)).record;
  const audit = () => store.settlement.audit(key);
  const reconciler = outcomeReconciler(latchkey);
  /** Runs the reconciler once the record is due. */
  const reconcile = async (ms = 1_000) => {
    await ports.clock.advance(ms);
    return reconciler.runOnce();
  };
  return { ports, store, ledger, events, latchkey, submit, record, audit, reconciler, reconcile };
}

describe("the outcome-reconciler", () => {
  test("looks up a record only when it is due, and never twice at once", async () => {
    const world = await inDoubt({ kind: "lookup" });
    expect(await world.reconciler.runOnce()).toMatchObject({ found: 0 });
    await world.ports.clock.advance(1_000);
    const both = await Promise.all([world.reconciler.runOnce(), outcomeReconciler(world.latchkey).runOnce()]);
    expect(both.map(({ found }) => found).sort()).toEqual([0, 1]);
  });

  test("found: the call's result is stored, and a worker continues after it", async () => {
    const world = await inDoubt({ kind: "lookup" }, "lost_after");
    expect(await world.reconcile()).toEqual({ found: 1, settled: 1, postponed: 0, deadLettered: 0 });
    expect(await world.record()).toMatchObject({ state: "retryable" });
    expect(await world.audit()).toMatchObject([
      {
        event: "settle_call",
        actor: "outcome-reconciler",
        proof: "found-downstream",
        from: "unknown",
        to: "retryable",
      },
    ]);
    expect(await leaseRescuer(world.latchkey).runOnce()).toMatchObject({ resumed: 1 });
    expect(await world.submit()).toMatchObject({ kind: "replay", value: { id: "ch_1" } });
    expect(world.store.rows("orders")).toHaveLength(1);
    expect(JSON.stringify(world.events)).not.toContain('"k"');
    const types = world.events.map(({ type }) => type);
    expect(types).toEqual(
      expect.arrayContaining(["settled", "reconcile_resolved", "attempt_resumed", "step_resumed"]),
    );
  });

  test("not found, without `close`: looked up after growing pauses, then left to a person; never freed", async () => {
    const world = await inDoubt({ kind: "lookup" });
    const reconciler = outcomeReconciler(world.latchkey, { triesMax: 4 });
    const after: (number | null)[] = [];
    for (let round = 0; round < 6; round++) {
      await world.ports.clock.advance(10_000);
      await reconciler.runOnce();
      const record = await world.record();
      if (record?.state !== "unknown") throw new Error("freed");
      after.push(record.reconcileAfter && record.reconcileAfter - world.ports.clock.wallMs());
    }
    expect(after).toEqual([1_000, 2_000, 4_000, null, null, null]);
    expect(await world.submit()).toMatchObject({ kind: "unknown", retryAfterMs: null });
    expect(world.events.filter(({ type }) => type === "dead_letter")).toMatchObject([
      { because: "tries-spent" },
    ]);
    expect(world.ledger.requests).toHaveLength(0);
  });

  test("closed: the operation has failed for good, with the reason", async () => {
    const world = await inDoubt({ kind: "close" });
    await world.reconcile();
    expect(await world.record()).toMatchObject({ state: "failed", lastErrorCode: "closed-downstream" });
    const again = await world.submit();
    expect(again).toMatchObject({
      kind: "replay",
      status: 502,
      // The order was written before the call, and a new key would write another.
      value: { code: "closed-downstream", safe_new_key: false },
    });
    expect(await world.audit()).toMatchObject([{ event: "settle_failed", proof: "closed-downstream" }]);
  });

  test("closed, without other work done: a new key is safe", async () => {
    const world = await inDoubt({ kind: "close", steps: "call alone" });
    await world.reconcile();
    expect(await world.submit()).toMatchObject({
      kind: "replay",
      value: { code: "closed-downstream", safe_new_key: true },
    });
  });

  test("closed, but it had happened before the close: found", async () => {
    const world = await inDoubt({ kind: "close", effect: { lookup: async () => null } }, "lost_after");
    await world.reconcile();
    expect(await world.record()).toMatchObject({ state: "retryable" });
    expect(await world.audit()).toMatchObject([{ event: "settle_call", proof: "found-downstream" }]);
  });

  test("closed and reopened: the call is made again under the next key, with the stored input", async () => {
    const world = await inDoubt({ kind: "reopen" });
    await world.reconcile();
    await leaseRescuer(world.latchkey).runOnce();
    expect(await world.submit()).toMatchObject({ kind: "replay", status: 201 });
    const [closed] = world.ledger.closed;
    expect(world.ledger.requests).toMatchObject([{ amount: 5 }]);
    expect(world.ledger.requests[0]?.key).not.toBe(closed);
  });

  test("an unclear answer of `close` proves nothing", async () => {
    const world = await inDoubt({
      kind: "close",
      effect: { close: async () => ({ closed: false }) as never },
    });
    expect(await world.reconcile()).toMatchObject({ postponed: 1 });
    expect(world.events).toContainEqual(expect.objectContaining({ type: "reconcile_failed" }));
  });

  test("a look-up that fails or hangs is repeated later", async () => {
    for (const lookup of [() => Promise.reject(new Error("down")), () => new Promise<never>(() => {})]) {
      const world = await inDoubt({ kind: "lookup", effect: { lookup } });
      await world.ports.clock.advance(1_000);
      const round = world.reconciler.runOnce();
      await world.ports.clock.advance(600);
      expect(await round).toMatchObject({ postponed: 1 });
      expect(world.events).toContainEqual(expect.objectContaining({ type: "reconcile_failed" }));
      expect(await world.record()).toMatchObject({ state: "unknown" });
    }
  });

  test("an effect that this process does not define is left to one that does", async () => {
    const world = await inDoubt({ kind: "close" });
    const { store, ports } = world;
    const otherService = createLatchkey<MemoryTransaction>({ store, ports });
    otherService.operation("charge", { execution: "lease", version: "1", run: async () => ({}) });
    await ports.clock.advance(1_000);
    expect(await outcomeReconciler(otherService).runOnce()).toMatchObject({ postponed: 1 });
    const withoutOperation = createLatchkey<MemoryTransaction>({ store, ports });
    await ports.clock.advance(10_000);
    expect(await outcomeReconciler(withoutOperation).runOnce()).toMatchObject({ found: 0 });
  });

  test("a provider that is down does not cause a busy loop: pauses grow, and the record is finally left to a person", async () => {
    const world = await inDoubt({
      kind: "provider",
      effect: { execute: () => Promise.reject(new Error("down")) },
    });
    const rescuer = leaseRescuer(world.latchkey);
    const reconciler = outcomeReconciler(world.latchkey, { triesMax: 5 });
    for (let minute = 0; minute < 30; minute++) {
      await world.ports.clock.advance(60_000);
      await reconciler.runOnce();
      const resumed = rescuer.runOnce();
      await world.ports.clock.advance(1_000);
      await resumed;
    }
    expect(await world.record()).toMatchObject({
      state: "unknown",
      reconcileAfter: null,
      fence: { attempt: 5 },
    });
    expect(world.events.filter(({ type }) => type === "dead_letter")).toHaveLength(1);
  });

  test("attempts without a call in doubt are resumed automatically after their lease ended", async () => {
    const ports = manualPorts();
    const store = memoryStore({ ports });
    const latchkey = createLatchkey<MemoryTransaction>({ store, ports });
    let hangs = true;
    const operation = latchkey.operation("charge", {
      execution: "lease",
      leaseMs: 3_000,
      version: "1",
      run: (_: ChargeInput, attempt) => {
        const done = attempt.phase("order", (tx) => tx.insert("orders", {}));
        return hangs ? new Promise<never>(() => {}) : done.then(() => ({ status: 201 }));
      },
    });
    const dead = createLatchkey<MemoryTransaction>({
      store: { ...store, renew: () => new Promise(() => {}) },
      ports,
    });
    const there = dead.operation("charge", {
      execution: "lease",
      leaseMs: 3_000,
      version: "1",
      run: async (_: ChargeInput, attempt) => {
        await attempt.phase("order", (tx) => tx.insert("orders", {}));
        return new Promise<never>(() => {});
      },
    });
    void dead.run(there, request);
    hangs = false;
    await ports.clock.advance(3_000);
    // Even a process without operations sees that this one owns its work.
    expect(await leaseRescuer(createLatchkey<MemoryTransaction>({ store, ports })).runOnce()).toMatchObject({
      rescued: 1,
    });
    expect(await outcomeReconciler(latchkey).runOnce()).toMatchObject({ settled: 1 });
    expect(await store.settlement.audit(key)).toMatchObject([{ proof: "no-call-in-doubt" }]);
    expect(await latchkey.run(operation, request)).toMatchObject({ kind: "executed", status: 201 });
    expect(store.rows("orders")).toHaveLength(1);
  });

  test.each(["attempts-spent", "version-changed", "some-other-code"])(
    "never lets go on by itself what ended as %s",
    async (code) => {
      const ports = manualPorts();
      const store = memoryStore({ ports });
      const latchkey = createLatchkey<MemoryTransaction>({ store, ports });
      latchkey.operation("charge", { execution: "lease", version: "1", run: async () => ({}) });
      const fence = { attempt: 1, token: "0".repeat(32) };
      const fingerprint = { version: 1, digest: new Uint8Array(32) };
      const input = Buffer.from("1");
      const life = {
        ...key,
        id: ports.random.uuid(0),
        operation: "charge",
        fingerprint,
        principal: null,
        fence,
        input,
      };
      const terms = {
        leaseMs: 1_000,
        leaseEnd: "reconcile",
        attemptsMax: 5,
        abandonAfterMs: 10_000,
      } as const;
      await store.create(life, null, terms);
      await store.end(key, life.id, fence, { event: "doubt", errorCode: code, reconcileAfterMs: 0 });
      expect(await outcomeReconciler(latchkey).runOnce()).toMatchObject({ deadLettered: 1 });
      expect((await store.read(key)).record).toMatchObject({ state: "unknown", reconcileAfter: null });
    },
  );

  test("refuses invalid options", async () => {
    const { latchkey } = await inDoubt({ kind: "none" });
    expect(() => outcomeReconciler(latchkey, { triesMax: 0 })).toThrow("triesMax");
  });
});

describe("an operation's own look-up", () => {
  const lookingUp = (found: LookedUp, asked: LookupQuestion[] = []) => ({
    lookup: async (question: LookupQuestion) => {
      asked.push(question);
      return found;
    },
  });

  test("determines the outcome when no effect can", async () => {
    const asked: LookupQuestion[] = [];
    const options = lookingUp({ kind: "completed", answer: { status: 201, body: "found" } }, asked);
    const world = await inDoubt({ kind: "none", options });
    await world.reconcile();
    expect(await world.submit()).toMatchObject({ kind: "replay", status: 201, value: "found" });
    expect(asked).toMatchObject([{ key, input: { amount: 5 }, recordId: (await world.record())?.id }]);
  });

  test("settles as failed, as not executed, or not at all", async () => {
    const failed = await inDoubt({
      kind: "none",
      options: lookingUp({ kind: "failed", answer: { status: 402 } }),
    });
    await failed.reconcile();
    expect(await failed.record()).toMatchObject({ state: "failed" });

    const closed = await inDoubt({
      kind: "none",
      options: lookingUp({ kind: "not_executed", proof: "closed-downstream" }),
    });
    await closed.reconcile();
    await leaseRescuer(closed.latchkey).runOnce();
    expect(await closed.submit()).toMatchObject({ kind: "replay", status: 201 });

    const still = await inDoubt({ kind: "none", options: lookingUp({ kind: "still_unknown" }) });
    expect(await still.reconcile()).toMatchObject({ postponed: 1 });
  });

  test("is also called for a route's handler", async () => {
    const ports = manualPorts();
    const store = memoryStore({ ports });
    const latchkey = createLatchkey<MemoryTransaction>({ store, ports });
    const answers: LookedUp[] = [{ kind: "not_executed", proof: "downstream-deduplicates" }];
    const bare = latchkey.operation("bare", {
      execution: "lease",
      lookup: async () => answers.shift() ?? { kind: "still_unknown" },
    });
    const once = { tenant: "t", key: "b", input: null };
    await expect(latchkey.run(bare, once, () => Promise.reject(new Error("?")))).rejects.toThrow("?");
    expect(await latchkey.run(bare, once, async () => 1)).toMatchObject({
      kind: "unknown",
      retryAfterMs: 1_000,
    });
    await ports.clock.advance(1_000);
    expect(await outcomeReconciler(latchkey).runOnce()).toMatchObject({ settled: 1 });
    expect(await latchkey.run(bare, once, async () => 1)).toMatchObject({ kind: "executed", value: 1 });
  });
});
