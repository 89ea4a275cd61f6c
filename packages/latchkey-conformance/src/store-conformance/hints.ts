/** `hints`: which listeners receive which hints. Stores without hints pass. */
import assert from "node:assert/strict";
import { systemPorts } from "latchkey";
import type { Hint, HintSupport } from "latchkey/internal";
import type { StoreCase } from "./case.ts";

/** In real time: a hint that takes longer counts as lost. Far above what a busy machine needs. */
const lostAfterMs = 5_000;

/** A listener, with a promise for each hint that it receives. */
function listener() {
  const received: Hint[] = [];
  const waiting = new Set<() => void>();
  const onHint = (hint: Hint) => {
    received.push(hint);
    for (const wake of waiting) wake();
  };
  const receives = async (hint: Hint) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = () => {
      if (received.includes(hint)) resolve();
    };
    waiting.add(wake);
    const cancel = systemPorts.clock.startTimer(lostAfterMs, resolve);
    wake();
    await promise;
    cancel();
    waiting.delete(wake);
    assert.ok(received.includes(hint), `the hint "${hint}" must arrive`);
  };
  return { received, onHint, receives };
}

async function listening(support: HintSupport) {
  const { onHint, ...rest } = listener();
  return { ...rest, stop: await support.listen(onHint) };
}

export const hintCases: readonly StoreCase[] = [
  {
    name: "hints: every listener receives them, in the same process and in others",
    async run({ store, other }) {
      if (store.hints === null || other.hints === null) return;
      const listeners = await Promise.all([store.hints, other.hints].map(listening));
      store.hints.send("effects");
      await Promise.all(listeners.map(({ receives }) => receives("effects")));
      other.hints.send("pending");
      await Promise.all(listeners.map(({ receives }) => receives("pending")));
      for (const { stop } of listeners) await stop();
    },
  },
  {
    name: "hints: kinds are kept apart, and many sent at once all arrive",
    async run({ store, other }) {
      if (store.hints === null || other.hints === null) return;
      const { received, receives, stop } = await listening(other.hints);
      store.hints.send("effects");
      await receives("effects");
      assert.ok(!received.includes("pending"), "it was not sent");
      for (let count = 0; count < 50; count += 1) store.hints.send(count % 2 === 0 ? "effects" : "pending");
      await receives("pending");
      await stop();
    },
  },
  {
    name: "hints: a listener that has unsubscribed receives no more",
    async run({ store, other }) {
      if (store.hints === null || other.hints === null) return;
      const [left, stayed] = [await listening(store.hints), await listening(other.hints)];
      await left.stop();
      store.hints.send("effects");
      await stayed.receives("effects");
      assert.deepEqual(left.received, []);
      await stayed.stop();
    },
  },
  {
    name: "hints: the same function may subscribe twice, each time until it unsubscribes",
    async run({ store }) {
      if (store.hints === null) return;
      const { onHint, receives } = listener();
      const stops = [await store.hints.listen(onHint), await store.hints.listen(onHint)];
      await stops[0]?.();
      store.hints.send("pending");
      await receives("pending");
      await stops[1]?.();
    },
  },
  {
    name: "hints: sending neither throws nor waits, even without listeners",
    async run({ store }) {
      if (store.hints === null) return;
      assert.equal(store.hints.send("effects"), undefined);
      const { stop } = await listening(store.hints);
      await stop();
      assert.equal(store.hints.send("effects"), undefined);
    },
  },
];
