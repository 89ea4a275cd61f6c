/** The broker suite: adapters that keep the contract pass, and an adapter with one mistake fails the case that covers it. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { type AdapterMistake, memoryBroker } from "../../../test/support/memory-broker.ts";
import { brokerConformance } from "./broker-conformance.ts";

const capabilities = { dies: true, cuts: true, putsAside: true };

describe("an adapter in memory", () => {
  brokerConformance({ test, ...capabilities, factory: () => memoryBroker() });
});

/** A mistake, and the beginning of the name of the case that must detect it. */
const mistakes: Readonly<Record<AdapterMistake, string>> = {
  "acknowledges before it asks the inbox": "ack: a consumer that dies before COMMIT",
  "acknowledges once the handler has ended": "ack: a consumer that dies before COMMIT",
  "never acknowledges": "deliver: a message runs once",
  "returns duplicates to the broker": "duplicates:",
  "gives each delivery a new id": "ack: if a consumer dies between",
  "returns messages that take long": "in progress:",
  "acknowledges messages that it should return": "give back: the message is delivered again",
  "keeps messages that it should return": "give back: the message is delivered again",
  "returns messages without a pause": "give back: the message is delivered again",
  "reports every delivery as the first": "give back: the message is delivered again",
  "reports only its own returns as redelivered": "ack: a message that was running in a consumer",
  "pauses everything for one message": "give back: other messages continue",
  "returns dead letters to the broker": "dead: is settled",
  "acknowledges dead letters that the broker should set aside": "dead: is also set aside",
  "delivers the body as text": "deliver: bytes",
  "omits the content type": "deliver: bytes",
  "runs one message at a time": "deliver: no more messages run at once",
  "ignores the concurrency limit": "deliver: no more messages run at once",
  "does not wait when it stops": "stop: waits",
  "does not close the inbox when it stops": "stop: gives back held messages at once",
  "acknowledges what it gives back when it stops": "stop: gives back held messages at once",
  "continues to receive when it stops": "stop: receives nothing more",
  "stops when its connection breaks": "cut:",
};

/** The failure that the case covering a mistake reports for an adapter that makes it. */
async function verdictOf(mistake: AdapterMistake, start: string): Promise<unknown> {
  const bodies: (() => Promise<void>)[] = [];
  brokerConformance({
    test: (name, body) => void (name.startsWith(start) && bodies.push(body)),
    ...capabilities,
    patienceMs: 4_000,
    factory: () => memoryBroker(mistake),
  });
  const [body, ...more] = bodies;
  if (body === undefined || more.length > 0) throw new Error(`${start} must match exactly one case`);
  return body().then(
    () => null,
    (error: unknown) => error,
  );
}

describe("the suite itself", () => {
  test.concurrent.each(Object.entries(mistakes) as [AdapterMistake, string][])(
    "detects an adapter that %s (%s)",
    async (mistake, start) => {
      expect(await verdictOf(mistake, start)).toBeInstanceOf(AssertionError);
    },
  );

  test("each case detects some mistake", () => {
    const names: string[] = [];
    brokerConformance({
      test: (name) => void names.push(name),
      ...capabilities,
      factory: () => memoryBroker(),
    });
    const idle = names.filter((name) => !Object.values(mistakes).some((start) => name.startsWith(start)));
    expect(idle).toEqual([]);
  });

  test("omits cases that cannot be run against the adapter", () => {
    const namesWith = (change: Partial<typeof capabilities>) => {
      const names: string[] = [];
      brokerConformance({
        test: (name) => void names.push(name),
        ...capabilities,
        ...change,
        factory: () => memoryBroker(),
      });
      return names;
    };
    const all = namesWith({});
    for (const [change, missing] of [
      [{ dies: false }, 3],
      [{ cuts: false }, 1],
      [{ putsAside: false }, 1],
    ] as const) {
      expect(namesWith(change)).toHaveLength(all.length - missing);
    }
  });

  test("rejects a skip of an unknown case, or one without a reason", () => {
    const options = { test, ...capabilities, factory: () => memoryBroker() };
    expect(() => brokerConformance({ ...options, skip: { nothing: "because" } })).toThrow(TypeError);
    const skip = { "duplicates: are acknowledged without running": " " };
    expect(() => brokerConformance({ ...options, skip })).toThrow(TypeError);
  });
});
