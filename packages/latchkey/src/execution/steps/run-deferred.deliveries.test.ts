/** Deferred requests that the delivery of an effect answers. */
import { describe, expect, test } from "vitest";
import {
  type Attempt,
  hour,
  leaseMs,
  never,
  quick,
  recordIdOf,
  request,
  type Setting,
  setUp,
  type Work,
} from "../../../../../test/support/deferred-world.ts";
import type { LatchkeyRecord } from "../../engine/record.ts";
import { awaitedBy } from "./awaited-answer.ts";

describe("an answer from a delivery", () => {
  const awaiting: Work = async (attempt, { notify }) => {
    await attempt.phase("asked", async () => attempt.enqueue(notify, { to: "a" }));
    return attempt.answeredBy(notify);
  };

  test("completes the record that waits for it", async () => {
    const world = setUp();
    const { submit, workOff, dispatcher, rescuer } = world.start(awaiting);
    const recordId = recordIdOf(await submit());
    await workOff();
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "awaits-delivery" });
    expect(recordIdOf(await submit())).toBe(recordId);
    await world.ports.clock.advance(hour);
    expect(await rescuer.runOnce(), "no attempt continues it").toMatchObject({ resumed: 0 });
    await world.inTime(dispatcher.runOnce());
    const answer = { kind: "replay", recordId, status: 201, value: { receipt: "to a" } };
    expect(await submit()).toEqual(answer);
    expect(world.hints).toEqual(["pending", "effects"]);
  });

  test("is not awaited for ever: if the delivery gives none, the operation fails in the end", async () => {
    const world = setUp({ notify: { onDelivered: async () => {} } });
    const { submit, workOff, dispatcher, rescuer } = world.start(awaiting);
    await submit();
    await workOff();
    await world.inTime(dispatcher.runOnce());
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "awaits-delivery" });
    for (let round = 0; round < 10; round++) {
      await world.ports.clock.advance(25 * hour);
      await world.inTime(rescuer.runOnce());
    }
    expect(await world.record()).toMatchObject({ state: "failed", lastErrorCode: "attempts-spent" });
  });

  test("comes when the attempt has ended, even if the delivery was faster", async () => {
    const world = setUp();
    const gate = Promise.withResolvers<void>();
    const process = world.start(async (attempt, made, input) => {
      const answer = await awaiting(attempt, made, input);
      await gate.promise;
      return answer;
    });
    await process.submit();
    const working = process.workOff();
    await world.ports.clock.advance(0);
    await world.inTime(process.dispatcher.runOnce(), 1_000);
    expect((await world.record())?.state).toBe("in_progress");
    gate.resolve();
    await working;
    await world.workOn(process, 20);
    expect(await process.submit()).toMatchObject({ kind: "replay", status: 201 });
  });

  test("is also awaited by the attempt after one that died", async () => {
    const world = setUp();
    const dying = world.start(
      async (attempt, made, input) => {
        await awaiting(attempt, made, input);
        return never();
      },
      { wrap: (store) => ({ ...store, renew: never }) },
    );
    await dying.submit();
    void dying.workOff();
    await world.ports.clock.advance(leaseMs + 1);
    const next = world.start(awaiting);
    await world.inTime(next.rescuer.runOnce());
    expect(await world.record()).toMatchObject({ state: "retryable", lastErrorCode: "awaits-delivery" });
    await world.inTime(next.dispatcher.runOnce());
    expect(await next.submit()).toMatchObject({ kind: "replay", status: 201 });
  });

  const errorsOf = (world: ReturnType<typeof setUp>) =>
    world.events.flatMap((event) => (event.type === "attempt_failed" ? [String(event.error)] : []));

  test.each<readonly [string, Work, Setting, string]>([
    ["nothing was enqueued", async (attempt, { notify }) => attempt.answeredBy(notify), {}, "was enqueued"],
    [
      "nothing answers",
      awaiting,
      { notify: { onDelivered: undefined } as never },
      "has no onDelivered to give the answer",
    ],
    [
      "it is a last phase's",
      async (attempt, { notify }) =>
        attempt.finish("asked", async () => {
          attempt.enqueue(notify, { to: "a" });
          return attempt.answeredBy(notify);
        }),
      {},
      "status must be between",
    ],
  ])("is refused if %s", async (_, work, setting, message) => {
    const world = setUp({ options: { attemptsMax: 1 }, ...setting });
    const { submit, workOff } = world.start(work);
    await submit();
    await workOff();
    expect(errorsOf(world)).toEqual([expect.stringContaining(message)]);
    expect((await world.record())?.state).toBe("failed");
  });

  test("is refused if the effect belongs to another latchkey", async () => {
    const world = setUp({ options: { attemptsMax: 1 } });
    const foreign = world.start(quick).notify;
    const { submit, workOff } = world.start(async (attempt) => attempt.answeredBy(foreign));
    await submit();
    await workOff();
    expect(errorsOf(world)).toEqual([expect.stringContaining("was not made by this latchkey")]);
  });

  test("that never came is not awaited again: the attempts are used up", async () => {
    const world = setUp({ options: { attemptsMax: 2 }, notify: { onDelivered: async () => {} } });
    const dying = world.start(
      async (attempt, made, input) => {
        await awaiting(attempt, made, input);
        return never();
      },
      { wrap: (store) => ({ ...store, renew: never }) },
    );
    await dying.submit();
    void dying.workOff();
    await world.ports.clock.advance(leaseMs + 1);
    const next = world.start(awaiting);
    await world.inTime(next.dispatcher.runOnce());
    await world.inTime(next.rescuer.runOnce());
    expect(errorsOf(world)).toEqual([expect.stringContaining("gave no answer")]);
    expect((await world.record())?.state).toBe("failed");
  });

  test("is only for deferred operations", async () => {
    const world = setUp();
    const { latchkey, notify } = world.start(quick);
    const leased = latchkey.operation("leased", {
      execution: "lease",
      version: "1",
      run: async (_: object, attempt) => (attempt as Attempt).answeredBy(notify),
    });
    await expect(latchkey.run(leased, { ...request, input: {} })).rejects.toThrow("answeredBy is for");
  });

  test("applies to the waiting record, and to no other", async () => {
    const world = setUp();
    const { latchkey, submit, workOff } = world.start(awaiting);
    const { runtime } = latchkey;
    const recordId = recordIdOf(await submit());
    const awaited = async (record: LatchkeyRecord | null) => awaitedBy(runtime, record, recordId);
    const pending = await world.record();
    expect([await awaited(null), await awaited(pending)]).toEqual(["none", "later"]);
    await workOff();
    const waits = (await world.record()) as LatchkeyRecord;
    expect(await awaited(waits)).toBe("answer");
    expect(await awaited({ ...waits, id: "another life" })).toBe("none");
    expect(await awaited({ ...waits, lastErrorCode: "handler-threw" } as LatchkeyRecord)).toBe("later");
    expect(await awaited({ ...waits, operation: "not defined here" })).toBe("answer");
    latchkey.operation("direct", { execution: "lease" });
    expect(await awaited({ ...waits, operation: "direct" })).toBe("none");
  });
});
