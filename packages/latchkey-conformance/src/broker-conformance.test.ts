/** The broker suite: adapters that keep the contract pass, and each that does not in one thing fails the case named for it. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { type AdapterMistake, memoryBroker } from "../../../test/support/memory-broker.ts";
import { brokerConformance } from "./broker-conformance.ts";

const capabilities = { dies: true, cuts: true, putsAside: true };

describe("an adapter in memory", () => {
  brokerConformance({ test, ...capabilities, factory: () => memoryBroker() });
});

/** A mistake, and the beginning of the name of the case that must notice it. */
const mistakes: Readonly<Record<AdapterMistake, string>> = {
  "acknowledges before it asks the inbox": "ack: a consumer that dies before COMMIT",
  "acknowledges when the handler has ended": "ack: a consumer that dies before COMMIT",
  "never acknowledges": "deliver: a message runs once",
  "gives duplicates back": "duplicates:",
  "names each delivery anew": "ack: a consumer that dies between",
  "gives back what takes long": "in progress:",
  "acknowledges what is given back": "give back: comes again",
  "keeps what is given back": "give back: comes again",
  "gives back without a pause": "give back: comes again",
  "says that nothing was delivered before": "give back: comes again",
  "says only of what it gave back that it was delivered before": "ack: what a consumer that dies had begun",
  "pauses everything for one message": "give back: others go on",
  "gives dead letters back": "dead: is settled",
  "acknowledges dead letters that are to be put aside": "dead: is put aside",
  "hands over text": "deliver: bytes",
  "leaves the content type out": "deliver: bytes",
  "takes one at a time": "deliver: no more are under way",
  "takes whatever there is": "deliver: no more are under way",
  "does not wait when it stops": "stop: waits",
  "does not close the inbox when it stops": "stop: gives back at once",
  "acknowledges what it gives back when it stops": "stop: gives back at once",
  "goes on taking when it stops": "stop: takes nothing more",
  "ends with its connection": "cut:",
};

/** What the case that is named for a mistake says of an adapter that makes it. */
async function verdictOf(mistake: AdapterMistake, start: string): Promise<unknown> {
  const bodies: (() => Promise<void>)[] = [];
  brokerConformance({
    test: (name, body) => void (name.startsWith(start) && bodies.push(body)),
    ...capabilities,
    patienceMs: 2_500,
    factory: () => memoryBroker(mistake),
  });
  const [body, ...more] = bodies;
  if (body === undefined || more.length > 0) throw new Error(`${start} names one case`);
  return body().then(
    () => null,
    (error: unknown) => error,
  );
}

describe("the suite itself", () => {
  test.concurrent.each(Object.entries(mistakes) as [AdapterMistake, string][])(
    "notices one that %s (%s)",
    async (mistake, start) => {
      expect(await verdictOf(mistake, start)).toBeInstanceOf(AssertionError);
    },
    30_000,
  );

  test("each case is the one that notices some mistake", () => {
    const names: string[] = [];
    brokerConformance({
      test: (name) => void names.push(name),
      ...capabilities,
      factory: () => memoryBroker(),
    });
    const idle = names.filter((name) => !Object.values(mistakes).some((start) => name.startsWith(start)));
    expect(idle).toEqual([]);
  });

  test("leaves out what cannot be done to the adapter", () => {
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

  test("refuses to leave out what it does not have, or without a reason", () => {
    const options = { test, ...capabilities, factory: () => memoryBroker() };
    expect(() => brokerConformance({ ...options, skip: { nothing: "because" } })).toThrow(TypeError);
    const skip = { "duplicates: are acknowledged, and nothing runs": " " };
    expect(() => brokerConformance({ ...options, skip })).toThrow(TypeError);
  });
});
