import { expect, test } from "vitest";
import { systemPorts } from "../ports.ts";
import { createEmitter } from "./emitter.ts";
import type { EventListener, LatchkeyEvent } from "./events.ts";

const event: LatchkeyEvent = {
  type: "cleaned",
  abandoned: 0,
  purged: 0,
  forgotten: 0,
  effects: 0,
  messages: 0,
};
const make = (listener: EventListener, secret?: string) =>
  createEmitter(listener, secret, systemPorts.random);

test("what a listener throws is dropped", () => {
  const { emit } = make(() => {
    throw new Error("listener");
  });
  expect(() => emit(event)).not.toThrow();
});

test("what an asynchronous listener rejects with is dropped too: it must not end the process", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  // The test runner listens too, and would fail this file.
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection").on("unhandledRejection", note);
  try {
    const listener: () => unknown = () => Promise.reject(new Error("listener"));
    make(listener).emit(event);
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.removeListener("unhandledRejection", note);
    for (const other of others) process.on("unhandledRejection", other);
  }
  expect(unhandled).toEqual([]);
});

test("an empty secret is refused at construction, not when the first key is named", () => {
  expect(() => make(() => {}, "")).toThrow(TypeError);
});
