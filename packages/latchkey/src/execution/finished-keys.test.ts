import { expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import type { RecordKey } from "../engine/record.ts";
import { createLatchkey } from "../latchkey.ts";
import type { OperationOptions } from "../operations/operation.ts";
import { memoryStore } from "../stores/memory.ts";
import { FinishedKeys } from "./finished-keys.ts";

const day = 24 * 60 * 60 * 1000;
const input = { amount: 1 };

/** Two processes over one store, and how often each has read and opened a transaction. */
function setUp(options: OperationOptions<"transaction"> = {}) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const process = () => {
    const asked = { reads: 0, transactions: 0 };
    const store: typeof memory = {
      ...memory,
      read: (key) => {
        asked.reads++;
        return memory.read(key);
      },
      transactions: memory.transactions && {
        ...memory.transactions,
        run: (request, work) => {
          asked.transactions++;
          return memory.transactions?.run(request, work) ?? Promise.reject();
        },
      },
    };
    const latchkey = createLatchkey({ store, ports });
    const operation = latchkey.operation("op", { ...options, writes: "none" });
    const run = (key: string, given: unknown = input, principal = "somebody") =>
      latchkey.run(operation, { tenant: "t", key, input: given, principal }, async () => "done");
    const cost = async (submit: () => Promise<{ readonly kind: string }>) => {
      Object.assign(asked, { reads: 0, transactions: 0 });
      return [(await submit()).kind, asked.reads, asked.transactions];
    };
    return { run, cost };
  };
  return { ports, first: process(), second: process() };
}

test("a key that a process has seen finished is answered from one reading", async () => {
  const { first, second } = setUp();
  expect(await first.cost(() => first.run("k"))).toEqual(["executed", 0, 1]);
  expect(await first.cost(() => first.run("k"))).toEqual(["replay", 1, 0]);
  expect(await second.cost(() => second.run("k"))).toEqual(["replay", 0, 1]);
  expect(await second.cost(() => second.run("k"))).toEqual(["replay", 1, 0]);
  expect(await second.cost(() => second.run("another"))).toEqual(["executed", 0, 1]);
});

test("and so are another request, another principal and a late request under its key", async () => {
  const { first, ports } = setUp({ retentionMs: day, forgetAfterMs: 2 * day, reuse: "reject" });
  await first.run("k");
  expect(await first.cost(() => first.run("k", { amount: 2 }))).toEqual(["key_misuse", 1, 0]);
  expect(await first.cost(() => first.run("k", input, "somebody else"))).toEqual(["key_misuse", 1, 0]);
  await ports.clock.advance(day);
  expect(await first.cost(() => first.run("k"))).toEqual(["expired", 1, 0]);
});

test("a key that may run as new runs, in a transaction", async () => {
  const { first, ports } = setUp({ retentionMs: day });
  await first.run("k");
  await ports.clock.advance(day);
  expect(await first.cost(() => first.run("k"))).toEqual(["executed", 1, 1]);
  expect(await first.cost(() => first.run("k"))).toEqual(["replay", 1, 0]);
});

test("a key that was never finished is not read first", async () => {
  const { first } = setUp();
  expect(new FinishedKeys().has({ tenant: "", scope: "", key: "" })).toBe(false);
  await expect(first.run("k", () => 0)).rejects.toThrow(TypeError);
  expect(await first.cost(() => first.run("k"))).toEqual(["executed", 0, 1]);
});

test("all parts of a key matter, and later keys replace earlier ones", () => {
  const keys = new FinishedKeys();
  const key = (number: number): RecordKey => ({ tenant: "t", scope: "op", key: `key-${number}` });
  keys.note(key(0));
  expect(keys.has(key(0))).toBe(true);
  for (const other of [{ tenant: "u" }, { scope: "oq" }, { key: "key-1" }]) {
    expect(keys.has({ ...key(0), ...other })).toBe(false);
  }
  const many = Array.from({ length: 200_000 }, (_, number) => key(number));
  for (const each of many) keys.note(each);
  expect(keys.has(key(199_999))).toBe(true);
  expect(many.filter((each) => keys.has(each)).length).toBeLessThanOrEqual(16_384);
  expect(many.filter((each) => keys.has(each)).length).toBeGreaterThan(10_000);
});
