/** Repeated requests and look-ups, stored for people: on the memory store and on a real Postgres. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openPlace, type Place } from "../../../../test/cli/arrange.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { until } from "../../../../test/support/until.ts";
import { NotExecuted } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import type { OperationOptions } from "../operations/operation.ts";
import type { LookedUp } from "../operations/owned-work.ts";
import { createOperator } from "../operator/index.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import { outcomeReconciler } from "../workers/outcome-reconciler.ts";

const second = 1_000;
const hour = 60 * 60 * second;

function setUp(options: OperationOptions<"lease"> = {}) {
  const ports = manualPorts();
  const inner = memoryStore({ ports });
  let writes = 0;
  const { facts } = inner;
  if (facts === undefined) throw new TypeError("the memory store keeps facts");
  const keep: typeof facts.keep = async (groups) => {
    writes += 1;
    await facts.keep(groups);
  };
  const store = { ...inner, facts: { ...facts, keep } };
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey<MemoryTransaction>({
    store,
    ports,
    onEvent: (event) => events.push(event),
  });
  const operation = latchkey.operation("op", { execution: "lease", ...options });
  const operator = createOperator({ latchkey });
  const run = (key: string, work: () => Promise<unknown> = async () => ({}), input: unknown = null) =>
    latchkey.run(operation, { tenant: "t", key, input }, work);
  const reportOf = async (key: string) => {
    const found = await operator.inspect({ tenant: "t", operation: "op", key });
    if (found.kind !== "record") throw new Error(`no record of ${key}`);
    return found.report;
  };
  return { ports, latchkey, run, reportOf, events, writes: () => writes };
}

describe("repeated requests", () => {
  test("are stored with their answers, a second later; the first request is not one", async () => {
    const { ports, run, reportOf, writes } = setUp({ retentionMs: hour, forgetAfterMs: 2 * hour });
    const held = Promise.withResolvers<null>();
    const first = run("k", () => held.promise);
    await ports.clock.advance(100);
    expect((await run("k")).kind).toBe("in_progress");
    held.resolve(null);
    expect((await first).kind).toBe("executed");
    expect((await run("k")).kind).toBe("replay");
    expect((await run("k", undefined, { other: true })).kind).toBe("key_misuse");
    expect(writes(), "no request writes").toBe(0);
    expect((await reportOf("k")).repeats).toBeNull();
    await ports.clock.advance(second);
    expect(writes()).toBe(1);
    const { repeats, lookUps, createdAt } = await reportOf("k");
    const at = new Date(Date.parse(createdAt) + 100).toISOString();
    expect(repeats).toEqual({
      count: 3,
      missing: 0,
      facts: [
        { what: "in_progress", because: null, text: "was refused: an attempt was under way" },
        { what: "replay", because: null, text: "got the stored answer" },
        {
          what: "key_misuse",
          because: "fingerprint",
          text: "was refused: the key came with another request",
        },
      ].map((fact) => ({ at, traceId: null, ...fact })),
    });
    expect(lookUps).toBeNull();
    await ports.clock.advance(hour);
    expect((await run("k")).kind).toBe("expired");
    await ports.clock.advance(second);
    expect((await reportOf("k")).repeats?.facts.at(-1)).toMatchObject({ what: "expired" });
  });

  test("do not include the first request when its own attempt ends unknown", async () => {
    const { ports, run, reportOf } = setUp({ attemptLimitMs: second });
    const first = run("k", () => new Promise(() => {}));
    await ports.clock.advance(second);
    expect((await first).kind).toBe("unknown");
    await ports.clock.advance(second);
    expect((await reportOf("k")).repeats).toBeNull();
    expect((await run("k")).kind).toBe("unknown");
    await ports.clock.advance(second);
    expect((await reportOf("k")).repeats).toMatchObject({ count: 1, facts: [{ what: "unknown" }] });
  });

  test("of one key for ever: the first ten, the last twenty, and the number between", async () => {
    const { ports, run, reportOf } = setUp();
    await run("hot");
    for (let round = 0; round < 4; round += 1) {
      for (let count = 0; count < 25; count += 1) await run("hot");
      await ports.clock.advance(5 * second);
    }
    const { repeats } = await reportOf("hot");
    expect(repeats).toMatchObject({ count: 100, missing: 70 });
    expect(repeats?.facts).toHaveLength(30);
  });

  test("a life that was released and runs again has only its own", async () => {
    const { ports, run, reportOf } = setUp();
    const held = Promise.withResolvers<null>();
    const first = run("k", async () => {
      await held.promise;
      throw new NotExecuted();
    });
    await ports.clock.advance(100);
    await run("k");
    await ports.clock.advance(second);
    held.resolve(null);
    await expect(first).rejects.toThrow(NotExecuted);
    expect((await run("k")).kind).toBe("executed");
    expect((await reportOf("k")).repeats).toBeNull();
  });

  test("have their trace if the service is traced, and none if that is not sampled", async () => {
    const ports = manualPorts();
    const traceIds = ["0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736", null];
    const given = traceIds.map((id) => (id === null ? null : `00-${id}-b7ad6b7169203331-01`));
    const latchkey = createLatchkey({
      store: memoryStore({ ports }),
      ports,
      tracing: {
        inSpan: (_, work) => work({ traceparent: given.shift() ?? null, set() {}, link() {}, fail() {} }),
      },
    });
    const operation = latchkey.operation("op", { execution: "lease" });
    const run = () => latchkey.run(operation, { tenant: "t", key: "k", input: null }, async () => ({}));
    for (let count = 0; count < 3; count += 1) await run();
    await ports.clock.advance(second);
    const found = await createOperator({ latchkey }).inspect({ tenant: "t", operation: "op", key: "k" });
    const facts = found.kind === "record" ? found.report.repeats?.facts : [];
    expect(facts?.map(({ traceId }) => traceId)).toEqual(traceIds.slice(1));
  });

  test("none if the operation turns them off", async () => {
    const { ports, run, reportOf, writes } = setUp({ facts: false });
    await run("k");
    await run("k");
    await ports.clock.advance(10 * second);
    expect(writes()).toBe(0);
    expect((await reportOf("k")).repeats).toBeNull();
  });

  test("closing writes the remaining facts", async () => {
    const { run, reportOf, latchkey } = setUp();
    await run("k");
    await run("k");
    await latchkey.close();
    expect((await reportOf("k")).repeats).toMatchObject({ count: 1 });
  });

  test("closing also writes those of the last requests, and does not wait for a store that does not answer", async () => {
    const { run, reportOf, latchkey, ports } = setUp();
    const held = Promise.withResolvers<null>();
    const first = run("k", () => held.promise);
    await ports.clock.advance(100);
    const closed = latchkey.close();
    const last = run("k").catch((error: unknown) => error);
    held.resolve(null);
    await first;
    await closed;
    expect(await last, "what comes from now on is refused").toMatchObject({ certainty: "not_sent" });
    expect((await reportOf("k")).repeats).toBeNull();

    const { facts: _, ...store } = memoryStore({ ports });
    const stuck = createLatchkey({
      store: { ...store, facts: { of: async () => [], keep: () => new Promise<void>(() => {}) } },
      ports,
    });
    const operation = stuck.operation("op", { execution: "lease" });
    const again = () => stuck.run(operation, { tenant: "t", key: "s", input: null }, async () => ({}));
    await again();
    await again();
    const closing = stuck.close();
    await ports.clock.advance(2 * second);
    expect(await closing).toBe(true);
  });

  test("a store without facts: none are stored, and turning them on is an error", async () => {
    const { facts: _, ...store } = memoryStore();
    const latchkey = createLatchkey({ store });
    expect(() => latchkey.operation("wanted", { execution: "lease", facts: true })).toThrow(
      "Operation wanted: facts: store memory keeps no facts",
    );
    const operation = latchkey.operation("op", { execution: "lease" });
    const run = () => latchkey.run(operation, { tenant: "t", key: "k", input: null }, async () => ({}));
    await run();
    expect((await run()).kind).toBe("replay");
    await latchkey.close();
  });
});

describe("look-ups", () => {
  test("are stored with what they found, including those that fail", async () => {
    const answers = [
      () => Promise.reject(new Error("a time-out")),
      async () => ({ kind: "still_unknown" }) as const,
      async () => ({ kind: "completed", answer: { status: 201, body: {} } }) as const,
    ];
    const lookup = async (): Promise<LookedUp> => {
      const answer = answers.shift();
      if (answer === undefined) throw new Error("it was settled");
      return answer();
    };
    const { ports, run, reportOf, latchkey, events } = setUp({ lookup });
    await expect(run("k", () => Promise.reject(new Error("lost")))).rejects.toThrow("lost");
    const reconciler = outcomeReconciler(latchkey);
    for (let round = 0; round < 3; round += 1) {
      await ports.clock.advance(10 * second);
      await reconciler.runOnce();
    }
    await ports.clock.advance(second);
    expect(events.map(({ type }) => type)).toContain("reconcile_failed");
    const { lookUps } = await reportOf("k");
    expect(lookUps?.facts.map(({ text }) => text)).toEqual([
      "failed",
      "found nothing certain yet",
      "found that it was completed (found-downstream)",
    ]);
  });
});

describe("on Postgres", () => {
  let place: Place;
  beforeAll(async () => {
    place = await openPlace();
  });
  afterAll(() => place.close());

  test("they are stored within seconds, and facts that the database refuses are counted and do no harm", async () => {
    const events: LatchkeyEvent[] = [];
    const latchkey = createLatchkey({ store: place.store, onEvent: (event) => events.push(event) });
    const operation = latchkey.operation("op", { execution: "transaction", writes: "none" });
    const operator = createOperator({ latchkey });
    const run = (key: string) => latchkey.run(operation, { tenant: "t", key, input: null }, async () => ({}));
    for (const key of ["k", "later"]) await run(key);
    for (let count = 0; count < 40; count += 1) expect((await run("k")).kind).toBe("replay");
    await until(async () => {
      const found = await operator.inspect({ tenant: "t", operation: "op", key: "k" });
      return found.kind === "record" && found.report.repeats?.count === 40;
    });
    await place.pool.query("alter table latchkey.facts rename to moved");
    expect((await run("later")).kind).toBe("replay");
    await until(() => events.some((event) => event.type === "facts_dropped" && event.count === 1));
    await place.pool.query("alter table latchkey.moved rename to facts");
    await latchkey.close();
  });
});
