/** How a worker runs a deferred request, and what may go wrong. */
import { describe, expect, test } from "vitest";
import {
  leaseMs,
  quick,
  recordIdOf,
  setUp,
  type Tx,
  threeSteps,
  type Work,
} from "../../../../../test/support/deferred-world.ts";
import type { Codec } from "../../codec.ts";
import { EffectRefused } from "../../errors.ts";
import { createLatchkey } from "../../latchkey.ts";
import type { RunAnswer } from "../../operations/owned-work.ts";
import type { FaultPlan } from "../../testing/faulty-store/fault.ts";
import { runClaimed } from "./execute-owned.ts";

const failing: Work = () => Promise.reject(new Error("no"));

describe("a worker's attempt", () => {
  test("runs under a lease that is renewed for as long as it takes", async () => {
    const world = setUp();
    const done = Promise.withResolvers<void>();
    const { submit, workOff } = world.start(async () => {
      await done.promise;
      return { status: 201 };
    });
    await submit();
    const working = workOff();
    await world.ports.clock.advance(leaseMs * 5);
    done.resolve();
    await working;
    expect(await submit()).toMatchObject({ kind: "replay", status: 201 });
  });

  test("counts its lease from before the claim was sent: a late one is confirmed before anything runs", async () => {
    const world = setUp();
    const ports: string[] = [];
    const { submit, claim, latchkey } = world.start(quick, {
      plan: ({ port }) => {
        ports.push(port);
        return "proceed";
      },
    });
    await submit();
    const sentAtMs = world.ports.clock.monotonicMs();
    const [record] = await claim();
    ports.length = 0;
    await world.ports.clock.advance(leaseMs - 100);
    const result = await world.inTime(runClaimed(latchkey.runtime, record as never, sentAtMs), 1_000);
    expect(result).toMatchObject({ kind: "executed" });
    expect(ports.slice(0, 2)).toEqual(["read", "renew"]);
  });

  test("whose lease was over before it began leaves the record to its owner", async () => {
    const world = setUp();
    let runs = 0;
    const counting: Work = async () => ({ status: 200 + runs++ });
    const { submit, claim, latchkey } = world.start(counting);
    await submit();
    const sentAtMs = world.ports.clock.monotonicMs();
    const [record] = await claim();
    await world.ports.clock.advance(leaseMs + 1);
    const done = Promise.withResolvers<RunAnswer>();
    const other = world.start(() => done.promise);
    const resumed = other.rescuer.runOnce();
    await world.ports.clock.advance(0);
    const late = await world.inTime(runClaimed(latchkey.runtime, record as never, sentAtMs), 1_000);
    expect(late).toMatchObject({ kind: "in_progress" });
    done.resolve({ status: 204 });
    await resumed;
    expect([runs, await submit()]).toMatchObject([0, { kind: "replay", status: 204 }]);
  });

  test("whose lease was over before it began, and whose record has no owner, continues it", async () => {
    const world = setUp();
    const { submit, claim, latchkey } = world.start(quick);
    const recordId = recordIdOf(await submit());
    const sentAtMs = world.ports.clock.monotonicMs();
    const [record] = await claim();
    await world.ports.clock.advance(leaseMs + 1);
    const result = await world.inTime(runClaimed(latchkey.runtime, record as never, sentAtMs), 1_000);
    expect(result).toMatchObject({ kind: "executed", recordId });
    expect(await submit(), "an accepted request is not forgotten").toMatchObject({
      kind: "replay",
      recordId,
    });
  });

  test("is unknown to a process without its operation", async () => {
    const world = setUp();
    const { submit, claim } = world.start(quick);
    await submit();
    const [record] = await claim();
    const otherService = createLatchkey<Tx>({ store: world.memory, ports: world.ports });
    expect(await runClaimed(otherService.runtime, record as never, 0)).toBeNull();
  });

  const refusals: readonly (readonly [string, Work, string])[] = [
    ["throws", failing, "handler-threw"],
    ["answers 503", async () => ({ status: 503 }), "status-503"],
    ["answers 429", async () => ({ status: 429 }), "status-429"],
    [
      "releases its answer",
      async (attempt) => {
        attempt.release();
        return { status: 422 };
      },
      "released",
    ],
  ];
  test.each(refusals)(
    "that %s is tried again with growing pauses, and fails in the end",
    async (_, work, errorCode) => {
      const world = setUp();
      const starts: number[] = [];
      const { submit, workOff, rescuer } = world.start((...given) => {
        starts.push(world.ports.clock.monotonicMs());
        return work(...given);
      });
      const recordId = recordIdOf(await submit());
      await workOff();
      expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: errorCode });
      for (let second = 0; second < 10; second++) {
        await rescuer.runOnce();
        await world.ports.clock.advance(1_000);
      }
      expect(starts).toEqual([0, 1_000, 3_000]);
      expect(await world.record()).toMatchObject({ state: "failed", lastErrorCode: "attempts-spent" });
      expect(await submit()).toMatchObject({
        kind: "replay",
        recordId,
        status: 500,
        value: { code: "attempts-spent", status: 500, retryable: false, safe_new_key: true },
      });
      const last = work === failing ? ["attempt_failed", "attempt_failed", "attempt_failed"] : [];
      expect(world.typesOf("attempt_failed", "released")).toEqual(last);
    },
  );

  test("that fails after finished steps reports that a new key may repeat them", async () => {
    const world = setUp({ options: { attemptsMax: 1 } });
    const { submit, workOff } = world.start(async (attempt) => {
      await attempt.phase("order", async (tx) => tx.insert("orders", {}));
      throw new Error("no");
    });
    await submit();
    await workOff();
    expect(await submit()).toMatchObject({ status: 500, value: { safe_new_key: false } });
  });

  test("answers 5xx if that is the answer, and the other side's refusals at once", async () => {
    const stored = setUp({ options: { serverErrors: "store" } });
    const five = stored.start(async () => ({ status: 503 }));
    await five.submit();
    await five.workOff();
    expect(await five.submit()).toMatchObject({ kind: "replay", status: 503 });
    const refused = setUp({
      send: () => {
        throw new EffectRefused({ message: "declined" });
      },
    });
    const declined = refused.start(threeSteps);
    await declined.submit();
    await refused.inTime(declined.workOff());
    expect(await declined.submit()).toMatchObject({ status: 502, value: { code: "effect-refused" } });
  });

  test("with a call in doubt is unknown, also in the last attempt", async () => {
    const world = setUp({ options: { attemptsMax: 1 }, kind: "none", send: () => "lost_after" });
    const { submit, workOff } = world.start(threeSteps);
    await submit();
    await world.inTime(workOff());
    expect(await submit()).toMatchObject({ kind: "unknown" });
  });

  test("that cannot read its input is not a failure of the work: it waits for a person", async () => {
    const codec: Codec = {
      encode: (plain) => plain,
      decode: () => {
        throw new Error("no key");
      },
    };
    const world = setUp({ options: { attemptsMax: 2 }, codec });
    const { submit, workOff, rescuer } = world.start(quick);
    await submit();
    await workOff();
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "journal-unread" });
    await world.ports.clock.advance(1_000);
    await rescuer.runOnce();
    expect(await world.record()).toMatchObject({ state: "unknown", lastErrorCode: "journal-unread" });
  });

  test("continues after the finished steps of one that died", async () => {
    const world = setUp();
    const dying = world.start(threeSteps, { send: () => "crash_after" });
    await dying.submit();
    void dying.workOff();
    await world.ports.clock.advance(leaseMs + 1);
    const next = world.start(threeSteps);
    await world.inTime(next.rescuer.runOnce());
    expect(await next.submit()).toMatchObject({ kind: "replay", status: 201, value: { chargeId: "ch_1" } });
    expect([world.memory.rows("orders").length, world.ledger.charges.length]).toEqual([1, 1]);
  });
});

describe("a mishap at every store call of a worker", () => {
  const enqueuing: Work = async (attempt, made, input) => {
    await attempt.phase("notified", async () => attempt.enqueue(made.notify, { to: "a" }));
    return threeSteps(attempt, made, input);
  };
  const mishaps = ["crash_before", "crash_after", "request_lost", "reply_lost"] as const;
  const ends = ["resume", "reconcile"] as const;
  const rows = mishaps.flatMap((mishap) => ends.map((leaseEnd) => [mishap, leaseEnd] as const));
  test.each(rows)("%s, under %s: all work is done, once", async (mishap, leaseEnd) => {
    const ports: string[] = [];
    for (let number = 1; ; number++) {
      const world = setUp({ options: { attemptsMax: 5, leaseEnd } });
      let calls = 0;
      let met: string | null = null;
      const plan: FaultPlan = ({ port }) => {
        if (port === "renew" || ++calls !== number) return "proceed";
        met = port;
        return mishap;
      };
      await world.start(enqueuing).submit();
      await world.workOn(world.start(enqueuing, { plan }), 1);
      await world.ports.clock.advance(leaseMs);
      const after = world.start(enqueuing);
      await world.workOn(after, 5);
      if (met === null) break;
      ports.push(met);
      const replay = { kind: "replay", status: 201, value: { chargeId: "ch_1" } };
      expect(await after.submit(), `${mishap} of call ${number}, ${met}`).toMatchObject(replay);
      expect([world.ledger.charges.length, world.memory.rows("orders").length]).toEqual([1, 1]);
      expect(world.memory.rows("settled")).toHaveLength(1);
      // The lease of a dispatcher that died on the way is longer than an attempt's.
      await world.ports.clock.advance(60_000);
      await world.workOn(after, 3);
      const enqueued = await world.memory.outbox?.ofRecord((await world.record())?.id ?? "");
      expect(enqueued?.map(({ state, step }) => [state, step])).toEqual([["delivered", "notified"]]);
    }
    expect(new Set(ports)).toContain("claimPending");
    expect(new Set(ports)).toContain("commitPhase");
    expect(ports.length).toBeGreaterThan(10);
  });
});
