/** Optimistic admission over the memory store: which handlers run, how far, and what remains. */
import { describe, expect, test } from "vitest";
import {
  answer,
  insertsOrder,
  key,
  setUp,
  submission,
} from "../../../../../test/support/transaction-world.ts";
import { isLatchkeyError } from "../../errors.ts";
import { createLatchkey } from "../../latchkey.ts";
import type { Work } from "../../operations/attempt.ts";
import type { MemoryTransaction } from "../../stores/memory.ts";
import { memoryStore } from "../../stores/memory.ts";

const options = { admission: "optimistic" } as const;
type Handler = Work<MemoryTransaction, "transaction">;

/** Two latchkeys on one store, as two processes have them. */
function twoProcesses() {
  const store = memoryStore();
  const [first, second] = [store, store].map((shared) => {
    const latchkey = createLatchkey<MemoryTransaction>({ store: shared });
    const operation = latchkey.operation("op", options);
    return (work: Handler) => latchkey.execute(operation, submission, work);
  });
  if (first === undefined || second === undefined) throw new Error("unreachable");
  return { store, first, second };
}

const refusedWith = (code: string) => (error: unknown) => isLatchkeyError(error) && error.code === code;

describe("optimistic admission", () => {
  test("starts the handler before its key is looked up, and stores its answer", async () => {
    const order: string[] = [];
    const { submit, memory } = setUp({
      options,
      wrap: (support) => ({
        ...support,
        run: () => Promise.reject(new Error("an ordinary transaction was opened")),
        runOptimistic: (request, admit, work) =>
          support.runOptimistic?.(
            request,
            (seen) => {
              order.push("looked up");
              return admit(seen);
            },
            work,
          ) ?? Promise.reject(new Error("unreachable")),
      }),
    });
    const result = await submit(async ({ tx, attempt }) => {
      order.push("started");
      expect(attempt.fence.attempt).toBe(1);
      await tx.insert("orders", { id: attempt.id });
      return answer(201, attempt.id);
    });
    expect(order).toEqual(["started", "looked up"]);
    expect(result).toMatchObject({ kind: "executed", stored: true });
    const { record } = await memory.read(key);
    expect(memory.rows("orders")).toEqual([{ id: record?.id }]);
    expect(await submit(insertsOrder)).toMatchObject({ kind: "replay", answer: { status: 201 } });
    expect(memory.rows("orders")).toHaveLength(1);
  });

  test("of a finished key: another process's handler reaches its first statement, and its caller gets the first answer", async () => {
    const { store, first, second } = twoProcesses();
    await first(insertsOrder);
    const reached: string[] = [];
    const result = await second(async ({ tx }) => {
      reached.push("started");
      await expect(tx.insert("orders", { amount: 2 })).rejects.toSatisfy(refusedWith("not-admitted"));
      reached.push("refused");
      return answer(500, "whatever it makes of it");
    });
    expect(result).toMatchObject({ kind: "replay", answer: { status: 201 } });
    expect(reached).toEqual(["started", "refused"]);
    expect(store.rows("orders")).toEqual([{ amount: 1 }]);
  });

  test("of a key that runs in another process: the handler is refused, and its caller gets in_progress", async () => {
    const { store, first, second } = twoProcesses();
    const wrote = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const running = first(async ({ tx }) => {
      await tx.insert("orders", { amount: 1 });
      wrote.resolve();
      await held.promise;
      return answer(201);
    });
    await wrote.promise;
    expect(await second(insertsOrder)).toMatchObject({ kind: "in_progress" });
    held.resolve();
    expect(await running).toMatchObject({ kind: "executed", stored: true });
    expect(store.rows("orders")).toHaveLength(1);
  });

  test("of a key that runs in this process: no second handler starts", async () => {
    const { submit, starts } = setUp({ options });
    const held = Promise.withResolvers<void>();
    const running = submit(async (context) => {
      await held.promise;
      return insertsOrder(context);
    });
    expect(await submit(insertsOrder)).toMatchObject({ kind: "in_progress" });
    held.resolve();
    expect(await running).toMatchObject({ kind: "executed" });
    expect(starts()).toBe(1);
  });

  test("of another request under the same key: misuse, without any writes", async () => {
    const { store, first } = twoProcesses();
    await first(insertsOrder);
    const latchkey = createLatchkey<MemoryTransaction>({ store });
    const other = { ...submission, fingerprint: { version: 1, digest: new Uint8Array([2]) } };
    const result = await latchkey.execute(latchkey.operation("op", options), other, insertsOrder);
    expect(result).toMatchObject({ kind: "key_misuse", because: "fingerprint" });
    expect(store.rows("orders")).toHaveLength(1);
  });

  test("a handler that succeeds without its `tx` is refused, and its key stays free", async () => {
    const { submit, memory } = setUp({ options, strict: false });
    await expect(submit(async () => answer(201))).rejects.toSatisfy(refusedWith("tx-unused"));
    expect((await memory.read(key)).record).toBeNull();
  });

  test("a refusal without `tx` is stored and replayed", async () => {
    const { submit, starts } = setUp({ options });
    const refuses: Handler = async () => answer(422, "no");
    expect(await submit(refuses)).toMatchObject({ kind: "executed", stored: true });
    expect(await submit(refuses)).toMatchObject({ kind: "replay", answer: { status: 422 } });
    expect(starts()).toBe(1);
  });

  test("an error before the first statement goes to the caller if the key is not known", async () => {
    const { submit } = setUp({ options });
    const error = new Error("no such customer");
    await expect(submit(() => Promise.reject(error))).rejects.toBe(error);
    expect(await submit(insertsOrder)).toMatchObject({ kind: "executed" });
  });

  test("an error before the first statement gives way to the first answer", async () => {
    const { first, second } = twoProcesses();
    await first(insertsOrder);
    expect(await second(() => Promise.reject(new Error("already paid")))).toMatchObject({ kind: "replay" });
  });

  test("a transaction that cannot be opened this way is opened as usual, and the handler runs again", async () => {
    const { submitThrough, memory, events, starts } = setUp({
      options,
      wrap: (support) => ({
        ...support,
        runOptimistic: (request, _, work) =>
          support.runOptimistic?.(request, () => Promise.reject(new Error("connection lost")), work) ??
          Promise.reject(new Error("unreachable")),
      }),
    });
    expect(await submitThrough(insertsOrder)).toMatchObject({ result: { kind: "executed", stored: true } });
    expect(starts()).toBe(2);
    expect(memory.rows("orders")).toHaveLength(1);
    expect(events).toContainEqual(
      expect.objectContaining({ type: "transaction_rerun", because: "admission" }),
    );
  });

  test("a handler over its time limit is refused, without any writes", async () => {
    const { submit, ports, memory } = setUp({ options: { ...options, transactionLimitMs: 100 } });
    const settled = submit(async ({ tx }) => {
      await tx.insert("orders", {});
      return new Promise(() => {});
    }).catch((error: unknown) => error);
    for (let step = 0; step < 20; step++) await ports.clock.advance(10);
    expect(await settled).toSatisfy(refusedWith("attempt-limit"));
    expect(memory.rows("orders")).toHaveLength(0);
  });

  test.each([
    [{ isolation: "serializable" }, /isolation "serializable"/],
    [{ writes: "none" }, /writes must be "required"/],
  ] as const)("refuses %j", (more, message) => {
    expect(() => setUp({ options: { ...options, ...more } })).toThrow(message);
  });

  test("refuses stores without support, and executions without a handler's transaction", () => {
    const store = memoryStore();
    const { optimisticAdmission: _, ...capabilities } = store.capabilities;
    const without = createLatchkey<MemoryTransaction>({ store: { ...store, capabilities } });
    expect(() => without.operation("op", options)).toThrow(/not support optimistic admission/);
    const latchkey = createLatchkey<MemoryTransaction>({ store });
    expect(() => latchkey.operation("op", { ...options, execution: "lease" })).toThrow(
      /admission has no meaning/,
    );
  });
});
