import { AsyncLocalStorage } from "node:async_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../test/support/manual-ports.ts";
import { pause, systemPorts, uuidVersion7 } from "./ports.ts";

test("a UUID has version 7, variant 10 and its time in front", () => {
  const uuid = uuidVersion7(0x0102_0304_0506, new Uint8Array(10).fill(0xff));
  expect(uuid).toBe("01020304-0506-7fff-bfff-ffffffffffff");
  expect(systemPorts.random.uuid(0)).toMatch(/^00000000-0000-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("tokens have 128 bits and do not repeat", () => {
  const tokens = new Set(Array.from({ length: 1_000 }, () => systemPorts.random.token()));
  expect(tokens.size).toBe(1_000);
  for (const token of tokens) expect(token).toMatch(/^[0-9a-f]{32}$/);
});

test("fractions stay in [0, 1)", () => {
  for (let draw = 0; draw < 1_000; draw++) {
    const fraction = systemPorts.random.fraction();
    expect(fraction).toBeGreaterThanOrEqual(0);
    expect(fraction).toBeLessThan(1);
  }
});

test("a pause ends by its timer, or at once by its signal", async () => {
  const { clock } = manualPorts();
  let over = false;
  void pause(clock, 100).then(() => {
    over = true;
  });
  await clock.advance(99);
  expect(over).toBe(false);
  await clock.advance(1);
  expect(over).toBe(true);
  const abort = new AbortController();
  const aborted = pause(clock, 1_000_000, abort.signal);
  abort.abort();
  await aborted;
  await pause(clock, 1_000_000, abort.signal);
});

describe("what keeps the process alive", async () => {
  // Other tests of this process may be waiting for timers of the module that all of them share.
  const loadAlone = async (name: string) => {
    const { href } = new URL(`./ports.ts?${name}`, import.meta.url);
    return ((await import(href)) as typeof import("./ports.ts")).systemPorts.clock;
  };
  const clock = await loadAlone("alone");
  const held = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;

  test("`keepAlive`, until it is let go; letting go twice is the same", () => {
    const before = held();
    const letGo = clock.keepAlive();
    expect(held()).toBe(before + 1);
    letGo();
    letGo();
    expect(held()).toBe(before);
  });

  test("awaited timers, until the last one is cancelled; background timers do not", () => {
    const before = held();
    const cancelBackground = clock.startTimer(60_000, () => {}, "background");
    expect(held()).toBe(before);
    const [cancelOne, cancelOther] = [1, 2].map(() => clock.startTimer(60_000, () => {}));
    expect(held()).toBe(before + 1);
    cancelOne?.();
    cancelOne?.();
    expect(held()).toBe(before + 1);
    cancelOther?.();
    expect(held()).toBe(before);
    cancelBackground();
  });

  test("without what the first caller has in its asynchronous context", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const context = new AsyncLocalStorage<object>();
    const { startTimer } = await loadAlone("in-context");
    const inContext = () => {
      const kept = {};
      context.run(kept, () => startTimer(60_000, () => {}))();
      return new WeakRef(kept);
    };
    const kept = inContext();
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    expect(kept.deref()).toBeUndefined();
  });

  test("no timer of a replaced `setTimeout`, which may be dropped without running", () => {
    const before = held();
    const { setTimeout: real } = globalThis;
    const dropped = { ref() {}, unref() {} };
    globalThis.setTimeout = (() => dropped) as never;
    try {
      clock.startTimer(60_000, () => {});
    } finally {
      globalThis.setTimeout = real;
    }
    expect(held()).toBe(before);
  });
});
