import { describe, expect, test } from "vitest";
import {
  hour,
  key,
  leaseMs,
  never,
  quick,
  recordIdOf,
  request,
  setUp,
  threeSteps,
  type Work,
} from "../../../../../test/support/deferred-world.ts";
import type { Codec } from "../../codec.ts";
import type { RunAnswer } from "../../operations/owned-work.ts";

describe("a deferred request", () => {
  test("is stored, can be read by its id, and wakes a worker; its handler does not run", async () => {
    const codec: Codec = {
      encode: (plain, { part }) => Buffer.concat([Buffer.from(`${part} `), plain]),
      decode: (stored, { part }) => Buffer.from(stored).subarray(part.length + 1),
    };
    const world = setUp({ codec });
    let runs = 0;
    const { submit } = world.start(async () => ({ status: 200 + runs++ }));
    const result = await submit();
    expect(result).toEqual({ kind: "accepted", recordId: expect.any(String), retryAfterMs: 1_000 });
    const recordId = recordIdOf(result);
    expect(await world.record()).toMatchObject({
      id: recordId,
      state: "pending",
      operation: "report",
      fence: { attempt: 1 },
    });
    expect((await world.memory.readById("t", recordId)).record?.id).toBe(recordId);
    expect((await world.memory.readById("other", recordId)).record).toBeNull();
    const journal = await world.memory.journal.read(key, recordId);
    expect(Buffer.from(journal?.input as Uint8Array).toString()).toBe('input {"amount":5}');
    expect(runs).toBe(0);
    expect(world.hints).toEqual(["pending"]);
    expect(world.events).toMatchObject([
      { type: "reserved", recordId, by: "deferred" },
      { type: "accepted", recordId, operation: "report" },
    ]);
  });

  test("is run by a worker, whose answer is replayed", async () => {
    const world = setUp();
    const { submit, workOff } = world.start(threeSteps);
    const recordId = recordIdOf(await submit());
    await world.inTime(workOff());
    expect(await submit()).toEqual({ kind: "replay", recordId, status: 201, value: { chargeId: "ch_1" } });
    expect(world.memory.rows("orders")).toHaveLength(1);
    const seen = world.typesOf("attempt_resumed", "executed", "replayed");
    expect(seen, "a first attempt resumes nothing").toEqual(["executed", "replayed"]);
  });

  test("is accepted again, as the same life, while it is pending, running, waiting or left by a dead worker", async () => {
    const world = setUp();
    let end: (answer: RunAnswer | Error) => void = () => {};
    let runs = 0;
    const slow: Work = () => {
      runs += 1;
      return new Promise((resolve, reject) => {
        end = (with_) => (with_ instanceof Error ? reject(with_) : resolve(with_));
      });
    };
    const { submit, workOff, rescuer } = world.start(slow);
    const recordId = recordIdOf(await submit());
    const accepted = async () => {
      const result = await submit();
      expect(recordIdOf(result)).toBe(recordId);
    };
    await accepted();
    const first = workOff();
    await world.ports.clock.advance(4_000);
    expect(await submit(), "half of its running time").toMatchObject({
      retryAfterMs: 2_000,
    });
    end(new Error("again"));
    await first;
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "handler-threw" });
    await accepted();
    await world.ports.clock.advance(1_000);
    const frozen = world.start(never, { wrap: (store) => ({ ...store, renew: never }) });
    void frozen.rescuer.runOnce();
    await world.ports.clock.advance(leaseMs + 1);
    expect((await world.record())?.state).toBe("in_progress");
    await accepted();
    expect((await world.record())?.fence.attempt, "no request takes it over").toBe(2);
    const last = rescuer.runOnce();
    await world.ports.clock.advance(0);
    end({ status: 200 });
    await last;
    expect(await submit()).toMatchObject({ kind: "replay", recordId, status: 200 });
    expect(runs).toBe(2);
    expect(world.hints).toEqual(["pending"]);
  });

  test("is one life, however many submit it at the same time", async () => {
    const world = setUp();
    const processes = [world.start(quick), world.start(quick), world.start(quick)];
    const results = await world.inTime(Promise.all(processes.flatMap(({ submit }) => [submit(), submit()])));
    expect(new Set(results.map(recordIdOf)).size).toBe(1);
    expect(world.hints).toEqual(["pending"]);
  });

  test("with another input or principal is misuse", async () => {
    const world = setUp();
    const { submit, latchkey, operation } = world.start(quick);
    await submit();
    expect(await submit({ amount: 6 })).toEqual({ kind: "key_misuse", because: "fingerprint" });
    const other = await latchkey.run(operation, { ...request, principal: "somebody" });
    expect(other).toEqual({ kind: "key_misuse", because: "principal" });
    expect((await world.record())?.state).toBe("pending");
  });

  test.each(["reply_lost", "request_lost"] as const)("is accepted when the %s", async (fault) => {
    const world = setUp();
    let faults = 1;
    const { submit } = world.start(quick, {
      plan: ({ port }) => (port === "accept" && faults-- > 0 ? fault : "proceed"),
    });
    const recordId = recordIdOf(await world.inTime(submit()));
    expect(await world.record()).toMatchObject({ id: recordId, state: "pending" });
    expect(world.hints).toEqual(["pending"]);
  });

  test("is refused when the store cannot be used", async () => {
    const world = setUp();
    const { submit } = world.start(quick, {
      plan: ({ port }) => (port === "accept" ? "not_sent" : "proceed"),
    });
    await expect(submit()).rejects.toMatchObject({ code: "store-unavailable" });
    expect([await world.record(), world.hints]).toEqual([null, []]);
  });

  test("counts as a new key once, and not over the limit", async () => {
    const world = setUp();
    let points = 0;
    const limiter = { consume: async () => (++points > 1 ? Promise.reject({ msBeforeNext: 7 }) : {}) };
    const { submit, latchkey, operation } = world.start(quick, { limits: { newKeys: limiter } as never });
    expect(await submit()).toMatchObject({ kind: "accepted" });
    expect(await submit()).toMatchObject({ kind: "accepted" });
    const over = await latchkey.run(operation, { ...request, key: "k2" });
    expect(over).toMatchObject({ kind: "too_many_keys", because: "newKeys" });
    expect(world.hints).toEqual(["pending"]);
  });

  test("that no worker starts answers 408, whether the record-cleaner has run or not", async () => {
    const world = setUp({ options: { pendingLimitMs: hour } });
    const { submit, workOff } = world.start(quick);
    const recordId = recordIdOf(await submit());
    await world.ports.clock.advance(hour - 1);
    expect(await submit()).toMatchObject({ kind: "accepted" });
    await world.ports.clock.advance(1);
    expect(await submit()).toEqual({ kind: "timeout", recordId });
    await workOff();
    expect((await world.record())?.state, "too late for a worker").toBe("pending");
    await world.memory.clean(10);
    expect((await world.record())?.state).toBe("failed");
    expect(await submit()).toEqual({ kind: "timeout", recordId });
  });

  test("whose attempts have all died is unknown", async () => {
    const world = setUp({ options: { attemptsMax: 1 } });
    const dying = world.start(never, { wrap: (store) => ({ ...store, renew: never }) });
    const recordId = recordIdOf(await dying.submit());
    void dying.workOff();
    await world.ports.clock.advance(leaseMs + 1);
    expect(await world.inTime(world.start(quick).submit())).toMatchObject({ kind: "unknown", recordId });
  });

  test("may begin a new life once the old one is forgotten", async () => {
    const world = setUp({ options: { retentionMs: hour } });
    const { submit, workOff } = world.start(quick);
    const first = recordIdOf(await submit());
    await world.inTime(workOff());
    await world.ports.clock.advance(hour);
    expect(recordIdOf(await submit())).not.toBe(first);
  });

  test("inside an attempt of its own key is refused", async () => {
    const world = setUp();
    const errors: unknown[] = [];
    const { submit, workOff } = world.start(async () => {
      await submit().catch((error: unknown) => errors.push(error));
      return {};
    });
    await submit();
    await world.inTime(workOff());
    expect(errors).toMatchObject([{ code: "nested-key" }]);
  });
});
