import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import type { OperationOptions } from "../operations/operation.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import { faultyStore } from "../testing/faulty-store.ts";

function setUp(execution: "lease" | "transaction", options: object = {}) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const asked = { count: 0, fails: false };
  const { store } = faultyStore(memory, ({ port }) => {
    if (port !== "read" && port !== "open") return "proceed";
    asked.count += 1;
    return asked.fails ? "not_sent" : "proceed";
  });
  /** Two processes over one store. */
  const [here, there] = [store, memory].map((one) => {
    const latchkey = createLatchkey<MemoryTransaction>({ store: one, ports, circuitBreaker: false });
    const operation = latchkey.operation("op", {
      ...{ execution, writes: "none", waitMs: 10_000 },
      ...options,
    } as OperationOptions<"lease">);
    return (work: () => Promise<unknown>, request: object = {}) =>
      latchkey.run(operation, { tenant: "t", key: "k", input: null, ...request }, work);
  });
  if (here === undefined || there === undefined) throw new Error("two processes");
  return { clock: ports.clock, asked, here, there };
}

const never = () => Promise.reject(new Error("It ran twice"));
const times = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => make(index));

describe.each(["lease", "transaction"] as const)("duplicates that wait (%s)", (execution) => {
  test("read as often as one of them would, however many there are", async () => {
    const counts: number[] = [];
    for (const duplicates of [1, 200]) {
      const { clock, asked, here, there } = setUp(execution);
      const gate = Promise.withResolvers<string>();
      const first = there(() => gate.promise);
      await clock.advance(0);
      const waiting = times(duplicates, () => here(never));
      await clock.advance(5_000);
      gate.resolve("done");
      await first;
      await clock.advance(400);
      const all = await Promise.all(waiting);
      expect(all.every((result) => result.kind === "replay" && result.value === "done")).toBe(true);
      counts.push(asked.count);
    }
    const [one, many] = counts;
    expect(many, "and one reading for all of them").toBeLessThanOrEqual((one ?? 0) + 2);
  });

  test("are answered at once if the request runs in their own process", async () => {
    const { clock, here } = setUp(execution);
    const gate = Promise.withResolvers<string>();
    const first = here(() => gate.promise);
    await clock.advance(0);
    const waiting = times(20, () => here(never));
    await clock.advance(3_000);
    gate.resolve("done");
    await first;
    expect(new Set((await Promise.all(waiting)).map(({ kind }) => kind))).toEqual(new Set(["replay"]));
  });

  test("take their turn when it fails: each runs, one after the other, in its own context", async () => {
    const { clock, here } = setUp(execution, execution === "lease" ? { isNotExecuted: () => true } : {});
    const gate = Promise.withResolvers<never>();
    const ran: number[] = [];
    const first = here(() => gate.promise);
    first.catch(() => {});
    await clock.advance(0);
    const waiting = times(5, (index) =>
      here(async () => {
        ran.push(index);
        if (index < 3) throw new Error("failed");
        return index;
      }),
    );
    const settled = Promise.allSettled(waiting);
    await clock.advance(100);
    gate.reject(new Error("failed"));
    await clock.advance(5_000);
    const kinds = (await settled).map((one) => (one.status === "fulfilled" ? one.value.kind : "threw"));
    expect(kinds.filter((kind) => kind === "executed")).toHaveLength(1);
    expect(ran.length).toBe(kinds.filter((kind) => kind !== "replay").length);
    expect(kinds).not.toContain("in_progress");
  });

  test("end each at its own time, while the others continue", async () => {
    const { clock, here, there } = setUp(execution);
    const gate = Promise.withResolvers<string>();
    const first = there(() => gate.promise);
    await clock.advance(0);
    const early = here(never);
    await clock.advance(6_000);
    const late = times(3, () => here(never));
    await clock.advance(4_001);
    expect((await early).kind).toBe("in_progress");
    gate.resolve("done");
    await first;
    await clock.advance(400);
    expect((await Promise.all(late)).map(({ kind }) => kind)).toEqual(["replay", "replay", "replay"]);
  });

  test("a store failure fails the one that reads, and the others continue", async () => {
    const { clock, asked, here, there } = setUp(execution);
    const gate = Promise.withResolvers<string>();
    const first = there(() => gate.promise);
    await clock.advance(0);
    const waiting = times(10, () => here(never));
    const settled = Promise.allSettled(waiting);
    await clock.advance(1_000);
    asked.fails = true;
    await clock.advance(400);
    asked.fails = false;
    gate.resolve("done");
    await first;
    await clock.advance(800);
    const failed = (await settled).filter(({ status }) => status === "rejected").length;
    expect(failed).toBeGreaterThan(0);
    expect(failed).toBeLessThan(4);
  });

  test("another tenant, and another request under the key, are decided separately", async () => {
    const { clock, here, there } = setUp(execution);
    const gate = Promise.withResolvers<string>();
    const first = there(() => gate.promise);
    await clock.advance(0);
    const waiting = here(never);
    const other = here(async () => "other", { tenant: "u" });
    expect((await other).kind).toBe("executed");
    const misuse = here(never, { input: { another: "request" } });
    gate.resolve("done");
    await first;
    await clock.advance(1_000);
    expect([(await waiting).kind, (await misuse).kind]).toEqual(["replay", "key_misuse"]);
  });
});
