import { describe, expect, test, vi } from "vitest";
import { gated, several } from "../../../../test/support/dispatching.ts";
import { chargeEffect, DownstreamLedger } from "../../../../test/support/downstream-ledger.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { StoreError } from "../errors.ts";
import { leaseTerms } from "../execution/lease/admit-lease.ts";
import { createLatchkey } from "../latchkey.ts";
import type { RunAnswer, StepAttempt } from "../operations/owned-work.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import type { WorkFailed, WorkReport } from "./work.ts";

type Input = { readonly name: string };
type Run = (input: Input, attempt: StepAttempt<MemoryTransaction>) => Promise<RunAnswer>;

const answers: Run = async ({ name }) => ({ status: 201, body: { name } });

/** Processes over one memory store; each `run` is the work of the deferred operation. */
function setUp(wrap: (store: Store<MemoryTransaction>) => Store<MemoryTransaction> = (store) => store) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const ledger = new DownstreamLedger({ deduplicates: true });
  const events: LatchkeyEvent[] = [];
  const start = (run: Run = answers) => {
    const latchkey = createLatchkey<MemoryTransaction>({
      store: wrap(store),
      ports,
      circuitBreaker: false,
      onEvent: (event) => events.push(event),
    });
    const charge = latchkey.effect("charge", chargeEffect(ledger, "provider"));
    const report = latchkey.operation("report", { execution: "deferred", version: "1", run });
    const submit = (name: string) => latchkey.run(report, { tenant: "t", key: name, input: { name } });
    return { latchkey, charge, report, submit };
  };
  const state = async (name: string) =>
    (await store.read({ tenant: "t", scope: "report", key: name })).record?.state;
  /** The result of `working`, which must settle within `advanceMs`. */
  const over = async <T>(working: Promise<T>, advanceMs = 0): Promise<T> => {
    let settled = false;
    const note = () => {
      settled = true;
    };
    working.then(note, note);
    await ports.clock.advance(advanceMs);
    expect(settled, "the work has ended").toBe(true);
    return working;
  };
  return { ports, store, ledger, events, start, state, over };
}

describe("until nothing is due", () => {
  test("nothing is due: it ends at once and reports that", async () => {
    const { start, over, ports } = setUp();
    const report = await over(start().latchkey.work());
    expect(report).toEqual({
      ended: "nothing_due",
      inTime: true,
      pendingWork: { claimed: 0 },
      effectDispatcher: { claimed: 0, delivered: 0, retried: 0, dead: 0, left: 0, rescued: 0 },
      leaseRescuer: { found: 0, rescued: 0, resumed: 0 },
      outcomeReconciler: { found: 0, settled: 0, postponed: 0, deadLettered: 0 },
      recordCleaner: { abandoned: 0, purged: 0, forgotten: 0, effects: 0, messages: 0, audit: 0 },
    } satisfies WorkReport);
    expect(ports.clock.keepers()).toBe(0);
  });

  test("runs all deferred work, however much, and delivers the effects that it enqueues", async () => {
    const world = setUp();
    const { submit } = world.start();
    const names = Array.from({ length: 25 }, (_, at) => `n${at}`);
    for (const name of names) await submit(name);
    const process = world.start(async ({ name }, attempt) =>
      attempt.finish("done", async () => {
        attempt.enqueue(process.charge, { amount: 1 });
        return { status: 201, body: { name } };
      }),
    );
    const report = await world.over(process.latchkey.work());
    expect(report).toMatchObject({
      ended: "nothing_due",
      pendingWork: { claimed: 25 },
      effectDispatcher: { claimed: 25, delivered: 25 },
    });
    for (const name of names) expect(await world.state(name)).toBe("completed");
    expect(world.ledger.charges).toHaveLength(25);
  });

  test("resumes an attempt whose worker died, and looks up the outcome that it leaves in doubt", async () => {
    const world = setUp();
    const dead = world.start();
    await dead.submit("a");
    const want = { operation: "report", tokens: ["f".repeat(32)], terms: leaseTerms(dead.report) };
    expect(await world.store.claimPending([want])).toHaveLength(1);
    const early = await world.over(world.start().latchkey.work());
    expect(early).toMatchObject({ ended: "nothing_due", leaseRescuer: { resumed: 0 } });
    expect(await world.state("a")).toBe("in_progress");
    await world.ports.clock.advance(60_000);
    const late = await world.over(world.start().latchkey.work());
    expect(late).toMatchObject({ ended: "nothing_due", leaseRescuer: { resumed: 1 } });
    expect(await world.state("a")).toBe("completed");
  });

  test("does not wait for failed work that is to be retried later", async () => {
    const world = setUp();
    let runs = 0;
    const { latchkey, submit } = world.start(async () => {
      runs += 1;
      throw new Error("not yet");
    });
    await submit("a");
    expect(await world.over(latchkey.work())).toMatchObject({ ended: "nothing_due" });
    expect(runs).toBe(1);
    expect(await world.state("a")).toBe("retryable");
  });

  test("does not loop over a record that cannot be resumed", async () => {
    let takeOvers = 0;
    const world = setUp((store) => ({
      ...store,
      async takeOver() {
        takeOvers += 1;
        throw new TypeError("this one cannot be read");
      },
    }));
    const { report, submit } = world.start();
    await submit("a");
    const want = { operation: "report", tokens: ["f".repeat(32)], terms: leaseTerms(report) };
    await world.store.claimPending([want]);
    await world.ports.clock.advance(60_000);
    expect(await world.over(world.start().latchkey.work())).toMatchObject({ ended: "nothing_due" });
    expect(takeOvers).toBe(1);
  });

  test("waits for a rate", async () => {
    const world = await several("provider", 3);
    const { latchkey } = world.start({ effect: { limits: { perSecond: 1 } } });
    let report: WorkReport | null = null;
    void latchkey.work().then((done) => {
      report = done;
    });
    await world.ports.clock.advance(500);
    expect(report).toBeNull();
    await world.ports.clock.advance(10_000);
    expect(report).toMatchObject({ ended: "nothing_due", effectDispatcher: { delivered: 3 } });
    expect(world.ledger.charges).toHaveLength(3);
  });

  test("does not wait for the rate of a service that has failed", async () => {
    const world = await several("provider", 3);
    const { latchkey } = world.start({ effect: { limits: { perSecond: 1 } } });
    const { outbox } = world.store;
    if (outbox === null) throw new Error("the memory store has an outbox");
    const claim = outbox.claim.bind(outbox);
    let claims = 0;
    vi.spyOn(outbox, "claim").mockImplementation(async (...given) => {
      claims += 1;
      if (claims > 1) throw new StoreError("not_sent", { message: "down" });
      return claim(...given);
    });
    const ended = vi.fn();
    latchkey.work().then(ended, ended);
    await world.ports.clock.advance(10_000);
    expect(claims).toBeGreaterThan(1);
    expect(ended, "not only after its 60 seconds").toHaveBeenCalledTimes(1);
  });

  test("services that the options leave out do nothing and report null", async () => {
    const world = setUp();
    const { latchkey, submit } = world.start();
    await submit("a");
    const report = await world.over(latchkey.work({ pendingWork: false, recordCleaner: false }));
    expect(report).toMatchObject({ ended: "nothing_due", pendingWork: null, recordCleaner: null });
    expect(await world.state("a")).toBe("pending");
  });
});

describe("the time limit", () => {
  /** Two attempts at a time; the test ends each. */
  async function busy() {
    const world = setUp();
    const waiting: (() => void)[] = [];
    const { latchkey, submit } = world.start((input, attempt) =>
      new Promise<void>((resolve) => waiting.push(resolve)).then(() => answers(input, attempt)),
    );
    for (const name of ["a", "b", "c", "d"]) await submit(name);
    const states = async () => Promise.all(["a", "b", "c", "d"].map(world.state));
    return { ...world, latchkey, waiting, states };
  }

  test("begins nothing more, waits for running work, and leaves the rest unchanged", async () => {
    const world = await busy();
    const working = world.latchkey.work({ untilMs: 5_000, concurrency: 2 });
    await world.ports.clock.advance(5_000);
    expect(world.waiting).toHaveLength(2);
    for (const end of world.waiting) end();
    expect(await world.over(working)).toMatchObject({
      ended: "time_over",
      inTime: true,
      pendingWork: { claimed: 2 },
    });
    expect(await world.states()).toEqual(["completed", "completed", "pending", "pending"]);
  });

  test("leaves work that takes longer than stopLimitMs to its lease", async () => {
    const world = await busy();
    const working = world.latchkey.work({ untilMs: 5_000, concurrency: 2, stopLimitMs: 2_000 });
    await world.ports.clock.advance(5_000);
    expect(await world.over(working, 2_000)).toMatchObject({ ended: "time_over", inTime: false });
    expect(world.ports.clock.keepers()).toBe(0);
  });

  test.each(["signal", "close"] as const)("can be ended early by %s", async (how) => {
    const world = await busy();
    const stop = new AbortController();
    const working = world.latchkey.work({ signal: stop.signal, concurrency: 2 });
    await world.ports.clock.advance(0);
    expect(world.waiting).toHaveLength(2);
    const closed = how === "close" ? world.latchkey.close() : null;
    if (how === "signal") stop.abort();
    await world.ports.clock.advance(0);
    for (const end of world.waiting) end();
    expect(await world.over(working)).toMatchObject({ ended: "aborted", inTime: true });
    if (closed !== null) expect(await world.over(closed)).toBe(true);
    expect(await world.states()).toEqual(["completed", "completed", "pending", "pending"]);
  });

  test("begins nothing if the signal has already aborted", async () => {
    const world = await busy();
    const report = await world.over(world.latchkey.work({ signal: AbortSignal.abort() }));
    expect(report).toMatchObject({ ended: "aborted", pendingWork: { claimed: 0 } });
    expect(world.waiting).toHaveLength(0);
  });

  test("releases a claim that returns late, at once", async () => {
    const asked = Promise.withResolvers<void>();
    const world = setUp((store) => ({
      ...store,
      async claimPending(wants) {
        const records = await store.claimPending(wants);
        await asked.promise;
        return records;
      },
    }));
    let runs = 0;
    const { latchkey, submit } = world.start(async (input, attempt) => {
      runs += 1;
      return answers(input, attempt);
    });
    await submit("a");
    const working = latchkey.work({ untilMs: 1_000 });
    await world.ports.clock.advance(1_000);
    asked.resolve();
    expect(await world.over(working)).toMatchObject({ ended: "time_over", inTime: true });
    expect(runs).toBe(0);
    expect(await world.state("a")).toBe("retryable");
  });

  test("releases deliveries that were claimed but not begun", async () => {
    const world = await several("provider", 3);
    const sending = gated(world, { effect: { limits: { concurrency: 1, timeoutMs: 60_000 } } });
    const working = sending.latchkey.work({ untilMs: 1_000 });
    await world.ports.clock.advance(1_000);
    await sending.endNext();
    expect(await working).toMatchObject({ ended: "time_over", effectDispatcher: { delivered: 1 } });
    expect(await world.inState("pending")).toHaveLength(2);
  });
});

describe("a store that fails", () => {
  test("one service fails: the others continue, and it rejects with the report", async () => {
    const down = new StoreError("not_sent", { message: "down" });
    const world = setUp((store) => ({
      ...store,
      clean: async () => {
        throw down;
      },
    }));
    const { latchkey, submit } = world.start();
    await submit("a");
    const failed: WorkFailed = await world.over(latchkey.work().catch((error) => error));
    expect(failed).toMatchObject({
      code: "work-failed",
      services: ["record-cleaner"],
      cause: down,
      report: { ended: "nothing_due", inTime: true, pendingWork: { claimed: 1 } },
    });
    expect(await world.state("a")).toBe("completed");
    expect(world.events).toContainEqual({ type: "service_error", service: "record-cleaner", error: down });
  });
});

describe("options", () => {
  test.each([
    [{ untilMs: 0 }, "untilMs"],
    [{ untilMs: 1.5 }, "untilMs"],
    [{ stopLimitMs: 0 }, "stopLimitMs"],
    [{ concurrency: 0 }, "concurrency"],
    [{ until: 5 } as object, '"until"'],
  ])("%j is refused", async (options, name) => {
    await expect(setUp().start().latchkey.work(options)).rejects.toThrow(name);
  });

  test("after close it refuses", async () => {
    const world = setUp();
    const { latchkey } = world.start();
    await world.over(latchkey.close());
    await expect(latchkey.work()).rejects.toThrow("close");
  });
});
