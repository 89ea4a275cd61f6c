import { expect, test } from "vitest";
import { StoreError } from "../errors.ts";
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
  audit: 0,
};
const make = (listener: EventListener | undefined, secret?: string) =>
  createEmitter(listener, secret, systemPorts.random);

test("an error that a listener throws is dropped", () => {
  const { emit } = make(() => {
    throw new Error("listener");
  });
  expect(() => emit(event)).not.toThrow();
});

test("an asynchronous listener's rejection is dropped too, so that it does not end the process", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  // The test runner also listens for rejections and would fail this file.
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

test("an empty secret is refused at construction, not when the first key is hashed", () => {
  expect(() => make(() => {}, "")).toThrow(TypeError);
});

test.each([
  ["a refusal of one address", new Error("connect ECONNREFUSED 127.0.0.1:5432"), "connect ECONNREFUSED 127"],
  ["one of all addresses", Object.assign(new AggregateError([]), { code: "ECONNREFUSED" }), "ECONNREFUSED"],
])(
  "without a listener the first failure of the store is a warning of the process: %s",
  async (_, cause, reason) => {
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on("warning", note);
    try {
      const error = new StoreError("not_sent", { message: "No connection to the database", cause });
      const failure: LatchkeyEvent = {
        type: "store_error",
        operation: "op",
        tenant: "a",
        keyHash: "",
        error,
      };
      const silent = make(undefined);
      silent.emit(event);
      silent.emit(failure);
      silent.emit(failure);
      make(() => {}).emit(failure);
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.removeListener("warning", note);
    }
    expect(warnings).toMatchObject([
      {
        name: "LatchkeyWarning",
        code: "LATCHKEY_STORE_FAILED",
        message: expect.stringContaining(`No connection to the database: ${reason}`),
      },
    ]);
  },
);
