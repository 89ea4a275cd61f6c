/** The steps of an operation that owns its work, and how a resumed run continues after them. */
import { describe, expect, test } from "vitest";
import {
  type Attempt,
  type Charging,
  key,
  leaseMs,
  never,
  processOf,
  request,
  setUp,
  type Tx,
  threeSteps,
} from "../../../../../test/support/charging-world.ts";
import type { ChargeInput } from "../../../../../test/support/downstream-ledger.ts";
import type { CodecContext } from "../../codec.ts";
import { NotExecuted, StoreError } from "../../errors.ts";
import { createLatchkey } from "../../latchkey.ts";
import type { CallStep } from "../../stores/journal.ts";
import type { Store } from "../../stores/store.ts";

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
        expect.stringContaining("used only once"),
        expect.stringContaining("1 to 200"),
      ],
    });
  });

  test("that run does not await end before the attempt does, and its answer is not stored", async () => {
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

  test("that begin when the attempt is over write nothing", async () => {
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

  test("are not continued after a dead attempt of a handler, before the operation owned its work", async () => {
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

  test("are not repeated by a handler, after the operation owned its work", async () => {
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

  test("every stored value passes the codec, in the context of its record", async () => {
    const contexts: CodecContext[] = [];
    const seal = (bytes: Uint8Array, context: CodecContext) => {
      contexts.push(context);
      return Buffer.from(bytes.map((byte) => byte ^ 0xff));
    };
    const world = setUp({ codec: { encode: seal, decode: seal } });
    let fails = true;
    const run = async (attempt: Attempt, charge: Charging, input: ChargeInput) => {
      const returned = await attempt.phase("order", async () => "canary-phase");
      const { id } = await attempt.call("charged", charge, input);
      if (fails) throw new Error("again");
      return { status: 201, body: [returned, id, input.amount] };
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
  test("that begins a new step before a stored one does not run it", async () => {
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
