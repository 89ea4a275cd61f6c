import { expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";

function setUp() {
  const ports = manualPorts();
  let storeClosed = 0;
  const store = {
    ...memoryStore({ ports }),
    close: async () => {
      storeClosed += 1;
    },
  };
  const events: string[] = [];
  const latchkey = createLatchkey<MemoryTransaction>({
    store,
    ports,
    onEvent: ({ type }) => events.push(type),
  });
  const operation = latchkey.operation("op", { execution: "lease" });
  const run = (key: string, work: () => Promise<unknown>) =>
    latchkey.run(operation, { tenant: "t", key, input: null }, work);
  return { ...ports, latchkey, run, events, storeClosed: () => storeClosed };
}

test("close refuses new submissions, waits for running ones, and stops workers; then the store releases its resources", async () => {
  const { clock, latchkey, run, events, storeClosed } = setUp();
  latchkey.startWorker();
  const gate = Promise.withResolvers<void>();
  const first = run("a", async () => {
    await gate.promise;
    return (await run("nested", async () => "inside")).kind;
  });
  await clock.advance(0);
  const closed = latchkey.close({ timeoutMs: 5_000 });
  expect(latchkey.close(), "a second time").toBe(closed);
  await expect(run("b", async () => null)).rejects.toMatchObject({
    code: "store-unavailable",
    certainty: "not_sent",
  });
  await clock.advance(1_000);
  expect(storeClosed(), "the attempt still needs it").toBe(0);
  gate.resolve();
  await clock.advance(0);
  expect(await closed).toBe(true);
  expect(await first).toMatchObject({ kind: "executed", value: "executed" });
  expect([storeClosed(), clock.keepers()]).toEqual([1, 0]);
  expect(events).toContain("worker_stopped");
  expect(events).not.toContain("circuit_opened");
  expect(() => latchkey.startWorker()).toThrow(TypeError);
});

test("close ends at its limit, and returns that something was left", async () => {
  const { clock, latchkey, run, storeClosed } = setUp();
  void run("a", () => new Promise(() => {}));
  await clock.advance(0);
  const closed = latchkey.close({ timeoutMs: 2_000 });
  await clock.advance(2_000);
  expect(await closed).toBe(false);
  expect([storeClosed(), clock.keepers()]).toEqual([1, 0]);
});

test("close ends at once if nothing runs, and does not stop a stopped worker again", async () => {
  const { clock, latchkey } = setUp();
  const worker = latchkey.startWorker();
  await worker.stop();
  expect(await latchkey.close()).toBe(true);
  expect(clock.keepers()).toBe(0);
  expect(() => setUp().latchkey.close({ timeoutMs: 0 })).toThrow(TypeError);
});
