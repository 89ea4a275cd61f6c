/** An operation that is redefined as a transaction finds records from when it ran in steps. */
import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../../test/support/manual-ports.ts";
import { fingerprintOf } from "../../fingerprint/fingerprint.ts";
import { createLatchkey } from "../../latchkey.ts";
import type { StepAttempt } from "../../operations/owned-work.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import type { Store } from "../../stores/store.ts";

type Tx = MemoryTransaction;
const request = { tenant: "t", key: "k", input: { amount: 5 } };
const key = { tenant: "t", scope: "op", key: "k" };

function setUp() {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const process = (store: Store<Tx> = memory) => createLatchkey<Tx>({ store, ports });
  const inSteps = (run: (attempt: StepAttempt<Tx>) => Promise<object>) => {
    const latchkey = process();
    const operation = latchkey.operation("op", {
      execution: "lease",
      leaseEnd: "resume",
      version: "1",
      run: async (_: { amount: number }, attempt) => ({ body: await run(attempt) }),
    });
    return latchkey.run(operation, request);
  };
  const asTransaction = async (owns: boolean) => {
    const latchkey = process();
    let starts = 0;
    const write = async (tx: Tx) => {
      starts += 1;
      await tx.insert("orders", {});
    };
    const run = async (_: { amount: number }, { tx }: { readonly tx: Tx }) => {
      await write(tx);
      return {};
    };
    const running = owns
      ? latchkey.run(latchkey.operation("op", { version: "2", run }), request)
      : latchkey.run(latchkey.operation("op"), request, ({ tx }) => write(tx));
    running.catch(() => {});
    await ports.clock.advance(1_000);
    return { result: await running, starts };
  };
  const record = async () => (await memory.read(key)).record;
  return { memory, inSteps, asTransaction, record };
}

describe.each([
  ["owns its work", true],
  ["is a handler", false],
])("a transaction that %s", (_, owns) => {
  test("does not repeat finished steps: the outcome is unknown, with the reason", async () => {
    const { memory, inSteps, asTransaction, record } = setUp();
    const stopped = inSteps(async (attempt) => {
      await attempt.phase("order", async (tx) => tx.insert("orders", {}));
      throw new Error("no");
    });
    await expect(stopped).rejects.toThrow("no");
    expect(await record()).toMatchObject({ state: "retryable", fence: { attempt: 1 } });
    const { id: recordId } = (await record()) ?? {};
    expect(await asTransaction(owns)).toEqual({
      result: { kind: "unknown", recordId, retryAfterMs: null },
      starts: 0,
    });
    expect(await record()).toMatchObject({ id: recordId, state: "unknown", lastErrorCode: "steps-changed" });
    expect(memory.rows("orders")).toHaveLength(1);
    expect((await asTransaction(owns)).result).toMatchObject({ kind: "unknown" });
    const steps = (await memory.journal.read(key, recordId as string))?.steps;
    expect(steps, "they remain for inspection").toHaveLength(1);
  });

  test("continues a record that has none", async () => {
    const { memory, asTransaction, record } = setUp();
    const life = {
      ...key,
      id: "r",
      operation: "op",
      principal: null,
      fence: { attempt: 1, token: "f".repeat(32) },
    };
    const fingerprint = fingerprintOf("op", request.input);
    const terms = { leaseMs: 1_000, leaseEnd: "reconcile", attemptsMax: 5, abandonAfterMs: 10_000 } as const;
    const running = await memory.create({ ...life, fingerprint }, null, terms);
    const end = { event: "retry_later", errorCode: "handler-threw", resumeAfterMs: null } as const;
    await memory.end(key, "r", (running as NonNullable<typeof running>).fence, end);
    expect(await asTransaction(owns)).toMatchObject({
      result: { kind: "executed", recordId: "r" },
      starts: 1,
    });
    expect(await record()).toMatchObject({ state: "completed", fence: { attempt: 2 } });
  });
});
