/**
 * A process that runs phase, call, phase dies, or loses a request or a reply, at every single store call and at the send,
 * for each kind of de-duplication; then a client or a worker goes on.
 */
import { describe, expect, test } from "vitest";
import { manualPorts } from "../../packages/latchkey/src/testing/manual-ports.ts";
import type { EffectKind, SendFault } from "../support/downstream-ledger.ts";
import {
  leaseMs,
  mishapAt,
  mishaps,
  type OwnedSetting,
  OwnedWorld,
  type ProcessOptions,
} from "./owned-world.ts";

const kinds: readonly EffectKind[] = ["provider", "close", "reopen", "lookup", "none"];
type Goer = "client" | "worker";
const goers: readonly Goer[] = ["client", "worker"];

/** Others go on: a client that comes again (workers look after what is unknown), or workers alone. */
async function goOn(world: OwnedWorld, goer: Goer): Promise<void> {
  const after = world.process();
  await world.ports.clock.advance(leaseMs);
  if (goer === "worker") {
    await world.work(after, 5);
    return;
  }
  for (let round = 0; round < 4; round++) {
    const result = await world.within(after.submit(), 10_000);
    if (result !== null && !(result instanceof Error) && result.kind === "replay") return;
    for (const worker of after.workers) await world.within(worker.runOnce(), 10_000);
    await world.ports.clock.advance(leaseMs);
  }
}

/** What holds whatever has happened. Answers the state in which it has come to rest. */
async function check(world: OwnedWorld): Promise<string> {
  const { kind } = world.setting;
  expect(world.ledger.charges.length, "at most one charge").toBeLessThanOrEqual(1);
  expect(world.changedInputs, "every send of one key carries the same input").toBe(0);
  const { orders, ends } = world.phases();
  expect(orders, "a finished phase never runs again").toBeLessThanOrEqual(1);
  expect(ends, "a finished phase never runs again").toBeLessThanOrEqual(1);
  const record = await world.record();
  const last = await world.within(world.process().submit(), 10_000);
  const again = await world.within(world.process().submit(), 10_000);
  expect({ ...again, kind: "replay" }, "the same bytes for ever").toEqual({ ...last, kind: "replay" });
  const told = world.results.flatMap((result) =>
    result.kind === "executed" || result.kind === "replay"
      ? [JSON.stringify([result.status, result.value])]
      : [],
  );
  expect(new Set(told).size, "everybody hears the same").toBeLessThanOrEqual(1);
  const state = record?.state ?? "none";
  switch (state) {
    case "completed":
      expect([world.ledger.charges.length, world.phases()]).toEqual([1, { orders: 1, ends: 1 }]);
      expect(last).toMatchObject({ kind: "replay", status: 201, value: { chargeId: "ch_1" } });
      break;
    case "unknown":
      expect(["lookup", "none"], "only these wait for a person").toContain(kind);
      expect(last).toMatchObject({ kind: "unknown" });
      expect(
        await world.memory.settlement.list({
          state: "unknown",
          tenant: null,
          operation: null,
          limit: 10,
          after: null,
        }),
      ).toHaveLength(1);
      break;
    case "failed":
      expect(kind, "closed on the other side, and not to be made again").toBe("close");
      expect(world.ledger.charges).toHaveLength(0);
      expect(last).toMatchObject({ kind: "replay", status: 502, value: { code: "closed-downstream" } });
      break;
    default:
      // Nothing has come of it; the last client has run it from its beginning.
      expect(["none", "retryable"]).toContain(state);
      expect(last).toMatchObject({ status: 201 });
  }
  return state;
}

async function suffer(
  setting: OwnedSetting,
  goer: Goer,
  options: ProcessOptions,
): Promise<{ readonly state: string; readonly world: OwnedWorld }> {
  const world = new OwnedWorld(setting);
  const { submit } = world.process(options);
  await world.within(submit(), 25_000);
  await goOn(world, goer);
  return { state: await check(world), world };
}

/** Both ways to end quadruple what else is run: with LATCHKEY_PROVE=1 only. */
const isProof = process.env.LATCHKEY_PROVE === "1";

const settings = kinds.flatMap((kind) =>
  (["resume", "reconcile"] as const).flatMap((leaseEnd) =>
    (isProof ? [true, false] : [kind === "close" || leaseEnd === "resume"]).map(
      (finishes): OwnedSetting => ({ kind, leaseEnd, finishes }),
    ),
  ),
);
const named = settings.map((setting) => [Object.values(setting).join(", "), setting] as const);

/** Every store call of the process, with every mishap. */
async function everyCall(setting: OwnedSetting, count: (what: string) => void): Promise<number> {
  let points = 0;
  for (const goer of goers) {
    for (const mishap of mishaps) {
      for (let number = 1; ; number++) {
        const { plan, met } = mishapAt(number, mishap);
        const run = suffer(setting, goer, { plan }).catch((cause: unknown) => {
          throw new Error(`${goer} after ${mishap} of call ${number}, ${met()}`, { cause });
        });
        const { state, world } = await run;
        if (met() === null) break;
        points += 1;
        count(`${state}`);
        for (const { proof } of await world.audit()) count(proof);
      }
    }
  }
  return points;
}

describe("a mishap at every store call", () => {
  test.each(named)("%s", { timeout: 120_000 }, async (name, setting) => {
    const reached = new Map<string, number>();
    const points = await everyCall(setting, (what) => reached.set(what, (reached.get(what) ?? 0) + 1));
    process.stdout.write(
      `${name}: ${points} points, ${[...reached].map(([what, times]) => `${what} ${times}`).join(", ")}\n`,
    );
    expect(points).toBeGreaterThan(40);
    expect([...reached.keys()]).toContain("completed");
  });
});

describe("a mishap at the send", () => {
  const faults: readonly SendFault[] = ["lost_before", "lost_after", "crash_before", "crash_after"];
  test.each(named)("%s", { timeout: 60_000 }, async (_name, setting) => {
    for (const goer of goers) {
      for (const fault of faults) {
        const { state, world } = await suffer(setting, goer, {
          send: (number) => (number === 1 ? fault : "proceed"),
        });
        const charged = fault === "lost_after" || fault === "crash_after";
        const expected = {
          provider: "completed",
          reopen: "completed",
          close: charged ? "completed" : "failed",
          lookup: charged ? "completed" : "unknown",
          none: "unknown",
        }[setting.kind];
        expect(state, `${goer} after ${fault}`).toBe(expected);
        if (setting.kind !== "provider") {
          const requests = world.ledger.requests.filter(({ key }) => key === world.ledger.requests[0]?.key);
          expect(requests.length, "never sent a second time under one key").toBeLessThanOrEqual(1);
        }
      }
    }
  });
});

describe("the frozen owner", () => {
  /** Marks the call as started, freezes before the send, and thaws when others have gone on. */
  async function freeze(kind: EffectKind) {
    const world = new OwnedWorld({ kind, leaseEnd: "reconcile", finishes: true });
    const thaw = Promise.withResolvers<SendFault>();
    const { clock } = manualPorts();
    const first = world.process({ clock, send: () => thaw.promise }).submit();
    first.catch(() => {});
    // Until it waits at the send; from then on its time stands still.
    await clock.advance(0);
    await world.ports.clock.advance(leaseMs);
    const others = world.process();
    await world.work(others, 4);
    return {
      world,
      others,
      async thaw() {
        thaw.resolve("proceed");
        await clock.advance(60_000);
        await world.work(others, 2);
        return world.within(first, 1_000);
      },
    };
  }

  test("with lookup without close, not found never frees the key", async () => {
    const { world, others, thaw } = await freeze("lookup");
    expect(await world.record()).toMatchObject({ state: "unknown" });
    expect(await world.within(others.submit(), 1_000)).toMatchObject({ kind: "unknown" });
    await thaw();
    expect(world.ledger.charges, "the thawed call was the only one").toHaveLength(1);
    expect(await world.audit(), "the owner's own, while nobody has gone on").toMatchObject([
      { proof: "owner" },
    ]);
    expect(await world.within(others.submit(), 1_000)).toMatchObject({ kind: "replay", status: 201 });
    expect(world.ledger.requests).toHaveLength(1);
  });

  test("with close, the other side refuses the thawed call", async () => {
    const { world, thaw } = await freeze("close");
    expect(await world.record()).toMatchObject({ state: "failed", lastErrorCode: "closed-downstream" });
    expect(await thaw()).toMatchObject({ kind: "replay", status: 502 });
    expect(world.ledger.requests, "it was sent, and refused").toHaveLength(1);
    expect(world.ledger.charges).toHaveLength(0);
  });

  test("with close and reopen, the call was made under its next key, once", async () => {
    const { world, thaw } = await freeze("reopen");
    expect(await world.record()).toMatchObject({ state: "completed" });
    expect((await world.journal())?.steps[1]).toMatchObject({ generation: 1 });
    expect(await thaw()).toMatchObject({ kind: "replay", status: 201 });
    expect(world.ledger.requests).toHaveLength(2);
    expect(world.ledger.charges).toHaveLength(1);
  });

  test("with provider, the thawed call meets its own key", async () => {
    const { world, thaw } = await freeze("provider");
    expect(await world.record()).toMatchObject({ state: "completed" });
    expect(await thaw()).toMatchObject({ kind: "replay", status: 201 });
    expect(world.ledger.requests).toHaveLength(2);
    expect(world.ledger.charges).toHaveLength(1);
  });

  test("with none, the thawed call settles itself", async () => {
    const { world, others, thaw } = await freeze("none");
    expect(await world.record()).toMatchObject({ state: "unknown", reconcileAfter: null });
    await thaw();
    expect(world.ledger.charges).toHaveLength(1);
    expect(await world.within(others.submit(), 1_000)).toMatchObject({ kind: "replay", status: 201 });
  });
});

describe("two deaths, each at every store call", () => {
  const setting = (kind: EffectKind): OwnedSetting => ({ kind, leaseEnd: "resume", finishes: true });
  const some: readonly EffectKind[] = isProof ? kinds : ["provider", "reopen", "none"];
  test.each(some)("%s", { timeout: 240_000 }, async (kind) => {
    let points = 0;
    for (let first = 1; ; first++) {
      const before = mishapAt(first, "crash_after");
      for (let second = 1; ; second++) {
        const world = new OwnedWorld(setting(kind));
        await world.within(world.process({ plan: before.plan }).submit(), 1_000);
        await world.ports.clock.advance(leaseMs);
        const then = mishapAt(second, "crash_after");
        const next = world.process({ plan: then.plan });
        // A worker first, so that its deaths count too; then the client comes to the same process.
        for (const worker of next.workers) await world.within(worker.runOnce(), 500);
        await world.within(next.submit(), 500);
        await goOn(world, "worker");
        await check(world).catch((cause: unknown) => {
          throw new Error(`death after call ${first}, then after ${second}, ${then.met()}`, { cause });
        });
        if (then.met() === null) break;
        points += 1;
      }
      if (before.met() === null) break;
    }
    process.stdout.write(`${kind}: ${points} pairs of deaths\n`);
    expect(points).toBeGreaterThan(50);
  });
});

describe("a planted mistake is found", () => {
  type Plant = NonNullable<OwnedSetting["plant"]>;
  const planted: readonly (readonly [string, EffectKind, string, Plant])[] = [
    [
      "an ended lease frees its key",
      "none",
      "a finished phase never runs again",
      (store) => ({
        giveUp: async (key, guard) =>
          (await store.end(key, guard.id, guard.fence, { event: "release" })) !== null,
      }),
    ],
    [
      "a call in doubt counts as one that never happened",
      "none",
      "at most one charge",
      ({ settlement, journal }) => ({
        journal: {
          ...journal,
          async read(key, id) {
            const read = await journal.read(key, id);
            const steps =
              read?.steps.filter((step) => step.kind === "phase" || step.state !== "started") ?? [];
            return read && { ...read, steps };
          },
        },
        settlement,
      }),
    ],
    [
      "finished phases are forgotten",
      "provider",
      "Step order_recorded is there",
      ({ journal }) => ({
        journal: {
          ...journal,
          async read(key, id) {
            const read = await journal.read(key, id);
            return read && { ...read, steps: read.steps.filter(({ kind }) => kind !== "phase") };
          },
        },
      }),
    ],
  ];
  test.each(planted)("%s", { timeout: 60_000 }, async (_what, kind, found, plant) => {
    const broken = { kind, leaseEnd: "reconcile", finishes: true, plant } as const;
    const error: unknown = await everyCall(broken, () => {}).catch((thrown: unknown) => thrown);
    expect(String(error instanceof Error && error.cause)).toContain(found);
  });
});
