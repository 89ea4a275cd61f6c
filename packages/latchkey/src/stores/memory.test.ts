/** What is the memory store's own; the store contract is in `packages/latchkey-conformance/src/store-conformance.test.ts`. */
import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import {
  defaultTerms,
  endRunning,
  leaseMs,
  minute,
  newKey,
  newLife,
} from "../../../latchkey-conformance/src/store-conformance/arrange.ts";
import {
  deliveryCommit,
  deliveryRequest,
} from "../../../latchkey-conformance/src/store-conformance/deliver-arrange.ts";
import {
  ownerOf,
  phaseCommit,
  phaseRequest,
} from "../../../latchkey-conformance/src/store-conformance/journal-arrange.ts";
import { newEffect } from "../../../latchkey-conformance/src/store-conformance/outbox-arrange.ts";
import {
  commitOf,
  isExclusive,
  requestFor,
} from "../../../latchkey-conformance/src/store-conformance/transactions-arrange.ts";
import { guardOf } from "../engine/record.ts";
import { IllegalTransition } from "../engine/transition.ts";
import { LatchkeyError, StoreError } from "../errors.ts";
import { type MemoryTransaction, memoryStore } from "./memory.ts";
import type { OpenPhase, OpenTransaction, PhaseWork, TransactionWork } from "./transactions.ts";

function setUp() {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const { transactions } = store;
  if (transactions === null) throw new TypeError("the memory store must have transactions");
  const key = newKey();
  const run = (
    work: (open: OpenTransaction<MemoryTransaction>) => Promise<TransactionWork<string>>,
    idleLimitMs = minute,
  ) => transactions.run(requestFor(key, { idleLimitMs }), work);
  return { ports, store, transactions, key, run };
}

describe("time", () => {
  test("is the clock's wall time unless `now` is given", async () => {
    const ports = manualPorts();
    expect((await memoryStore({ ports }).read(newKey())).now).toBe(ports.clock.wallMs());
    expect((await memoryStore({ ports, now: () => 42 }).read(newKey())).now).toBe(42);
    expect((await memoryStore().read(newKey())).now).toBeGreaterThan(Date.UTC(2026, 0, 1));
  });

  test("moves with the clock of the ports", async () => {
    const { ports, store, key } = setUp();
    const life = newLife(key);
    await store.create(life, null, defaultTerms);
    await ports.clock.advance(leaseMs);
    expect(await store.renew(key, life.id, life.fence, leaseMs)).toBe(false);
  });
});

describe("a defect in Latchkey", () => {
  test("shows as an illegal transition and changes nothing", async () => {
    const { store, key } = setUp();
    const life = newLife(key);
    const running = await store.create(life, null, defaultTerms);
    if (running === null) throw new TypeError("expected a record");
    const create = store.create(newLife(key), guardOf(running), defaultTerms);
    await expect(create).rejects.toBeInstanceOf(IllegalTransition);
    expect((await store.read(key)).record).toEqual(running);
  });

  test("such as forgetting a key before its answer is refused", async () => {
    const { store, key } = setUp();
    const life = newLife(key);
    await store.create(life, null, defaultTerms);
    const retention = { retentionMs: 2, forgetAfterMs: 1 };
    const end = { event: "complete", answer: new Uint8Array(), retention, errorCode: null } as const;
    await expect(store.end(key, life.id, life.fence, end)).rejects.toBeInstanceOf(TypeError);
    expect((await store.read(key)).record?.state).toBe("in_progress");
  });

  test("such as undoing writes without a savepoint is refused", async () => {
    const { run, store, key } = setUp();
    const undone = run(async ({ tx }) => {
      await tx.insert("orders", { id: 1 });
      return commitOf(key, { undoWrites: true });
    });
    await expect(undone).rejects.toBeInstanceOf(TypeError);
    expect((await store.read(key)).record).toBeNull();
    expect(store.rows("orders")).toEqual([]);
  });

  test("such as another body over a retryable life is not committed", async () => {
    const { run, store, transactions, key } = setUp();
    const { id } = await endRunning(
      {
        store,
        other: store,
        capabilities: store.capabilities,
        frozenClock: true,
        business: null,
        advance: async () => {},
      },
      key,
      { event: "retry_later", errorCode: "x", resumeAfterMs: null },
    );
    const { record } = await store.read(key);
    if (record === null) throw new TypeError("expected a record");
    const fingerprint = { version: 1, digest: new Uint8Array([9]) };
    const life = newLife(key, { id, fingerprint, fence: { attempt: 2, token: "t" } });
    expect((await run(async () => commitOf(key, { life, replaces: guardOf(record) }))).kind).toBe("lost");
    expect(await isExclusive(transactions, key)).toBe(true);
  });
});

describe("rows of handlers", () => {
  test("are read back by their transaction before and by everybody after the commit, oldest first", async () => {
    const { run, store, key } = setUp();
    await run(async ({ tx }) => {
      await tx.insert("orders", { id: 1 });
      await tx.insert("orders", { id: 2 });
      await tx.insert("payments", { id: 3 });
      expect(await tx.rows("orders")).toEqual([{ id: 1 }, { id: 2 }]);
      expect(store.rows("orders")).toEqual([]);
      return commitOf(key);
    });
    expect(store.rows("orders")).toEqual([{ id: 1 }, { id: 2 }]);
    expect(store.rows("payments")).toEqual([{ id: 3 }]);
    expect(store.rows("refunds")).toEqual([]);
  });

  test("are copies on the way in and out", async () => {
    const { run, store, key } = setUp();
    const row = { nested: { amount: 1 } };
    await run(async ({ tx }) => {
      await tx.insert("orders", row);
      row.nested.amount = 2;
      const [own] = await tx.rows("orders");
      Object.assign(own ?? {}, { nested: null });
      return commitOf(key);
    });
    const [read] = store.rows("orders");
    if (read !== undefined) Object.assign(read, { nested: null });
    expect(store.rows("orders")).toEqual([{ nested: { amount: 1 } }]);
  });

  test("that are no plain data are refused before anything is written", async () => {
    const { run, store, key } = setUp();
    const failed = run(async ({ tx }) => {
      await tx.insert("orders", { call: () => 1 });
      return commitOf(key);
    });
    await expect(failed).rejects.toThrow();
    expect((await store.read(key)).record).toBeNull();
  });

  test("cannot be read either once the handle is revoked", async () => {
    const { run } = setUp();
    await run(async ({ tx, revoke }) => {
      revoke();
      await expect(tx.rows("orders")).rejects.toMatchObject({ code: "tx-revoked" });
      await expect(tx.insert("orders", {})).rejects.toBeInstanceOf(LatchkeyError);
      return { end: "rollback", value: "" };
    });
  });
});

describe("the idle limit", () => {
  const idleLimitMs = 1_000;

  test("ends a transaction whose handler does nothing, and frees its key", async () => {
    const { run, store, transactions, ports, key } = setUp();
    const thawed = Promise.withResolvers<void>();
    const outcome = run(async ({ tx }) => {
      await tx.insert("orders", { id: 1 });
      await thawed.promise;
      await expect(tx.insert("orders", { id: 2 })).rejects.toBeInstanceOf(StoreError);
      return commitOf(key);
    }, idleLimitMs);
    await ports.clock.advance(idleLimitMs - 1);
    expect(await isExclusive(transactions, key)).toBe(false);
    await ports.clock.advance(1);
    expect(await isExclusive(transactions, key)).toBe(true);
    thawed.resolve();
    expect(await outcome).toMatchObject({ kind: "refused", because: "other" });
    expect(store.rows("orders")).toEqual([]);
  });

  test("ends one that was never used at all", async () => {
    const { run, transactions, ports, key } = setUp();
    const outcome = run(async () => {
      await ports.clock.advance(idleLimitMs);
      expect(await isExclusive(transactions, key)).toBe(true);
      return commitOf(key);
    }, idleLimitMs);
    expect(await outcome).toMatchObject({ kind: "refused" });
  });

  test("starts again with every use", async () => {
    const { run, store, ports, key } = setUp();
    const outcome = await run(async ({ tx }) => {
      for (let id = 1; id <= 3; id += 1) {
        await ports.clock.advance(idleLimitMs - 1);
        await tx.insert("orders", { id });
      }
      return commitOf(key);
    }, idleLimitMs);
    expect(outcome.kind).toBe("committed");
    expect(store.rows("orders")).toHaveLength(3);
  });

  test("of one that has ended does not free the key of the next", async () => {
    const { run, transactions, ports, key } = setUp();
    await run(async () => ({ end: "rollback", value: "" }), idleLimitMs);
    await run(async () => {
      await ports.clock.advance(2 * idleLimitMs);
      expect(await isExclusive(transactions, key)).toBe(false);
      return { end: "rollback", value: "" };
    }, minute);
  });

  test("leaves no timer behind", async () => {
    const started = new Set<() => void>();
    const { clock } = manualPorts();
    const counting = {
      ...clock,
      startTimer(delayMs: number, task: () => void) {
        const cancel = clock.startTimer(delayMs, task);
        const stop = () => {
          started.delete(stop);
          cancel();
        };
        started.add(stop);
        return stop;
      },
    };
    const { transactions } = memoryStore({ ports: { clock: counting } });
    const key = newKey();
    await transactions?.run(requestFor(key), async ({ tx }) => {
      await tx.rows("orders");
      expect(started.size).toBe(1);
      const { id, fence } = newLife(key);
      expect(transactions.resolve(key, id, fence, minute)).toBeInstanceOf(Promise);
      return { end: "rollback", value: "" };
    });
    await Promise.resolve();
    await clock.advance(0);
    expect(started.size).toBe(0);
  });
});

describe("the idle limit of a phase", () => {
  const idleLimitMs = 1_000;

  async function setUpPhase() {
    const ports = manualPorts();
    const store = memoryStore({ ports });
    const record = await store.create(newLife(newKey()), null, defaultTerms);
    if (record === null || store.transactions === null)
      throw new TypeError("expected a record and transactions");
    const { transactions } = store;
    const request = phaseRequest(ownerOf(record), { idleLimitMs });
    return { store, ports, run: (work: Work) => transactions.phase(request, work), owner: request.owner };
  }
  type Work = (open: OpenPhase<MemoryTransaction>) => Promise<PhaseWork<string>>;

  test("ends it after that much time without a use, and leaves nothing", async () => {
    const { run, store, ports, owner } = await setUpPhase();
    const outcome = await run(async ({ tx }) => {
      await tx.insert("orders", { id: 1 });
      await ports.clock.advance(idleLimitMs);
      await expect(tx.insert("orders", { id: 2 })).rejects.toBeInstanceOf(StoreError);
      return phaseCommit();
    });
    expect(outcome).toMatchObject({ kind: "refused", because: "other" });
    expect(store.rows("orders")).toEqual([]);
    expect(await store.journal.read(owner.key, owner.id)).toMatchObject({ steps: [] });
  });

  test("starts again with every use", async () => {
    const { run, store, ports } = await setUpPhase();
    const outcome = await run(async ({ tx }) => {
      for (let id = 1; id <= 3; id += 1) {
        await ports.clock.advance(idleLimitMs - 1);
        await tx.insert("orders", { id });
      }
      return phaseCommit();
    });
    expect(outcome.kind).toBe("committed");
    expect(store.rows("orders")).toHaveLength(3);
  });
});

describe("the idle limit of a delivery", () => {
  const idleLimitMs = 1_000;

  test("ends it after that much time without a use, and leaves nothing", async () => {
    const { ports, store, transactions, key, run } = setUp();
    const effect = newEffect();
    await run(async () => commitOf(key, { effects: [effect] }));
    const [claimed] = (await store.outbox?.claim([{ effect: effect.effect, limit: 1 }], "t", minute)) ?? [];
    if (claimed === undefined) throw new TypeError("expected an effect");
    const outcome = await transactions.deliver(deliveryRequest(claimed, { idleLimitMs }), async ({ tx }) => {
      await tx.insert("orders", { id: 1 });
      await ports.clock.advance(idleLimitMs);
      await expect(tx.insert("orders", { id: 2 })).rejects.toBeInstanceOf(StoreError);
      return deliveryCommit();
    });
    expect(outcome).toMatchObject({ kind: "refused", because: "other" });
    expect(store.rows("orders")).toEqual([]);
    expect(await store.outbox?.ofRecord(claimed.recordId)).toMatchObject([{ state: "claimed" }]);
  });
});

test("hints of one kind that are sent together arrive once, in a turn of their own", async () => {
  const { hints } = memoryStore();
  const received: string[] = [];
  await hints?.listen((hint) => received.push(hint));
  for (const hint of ["effects", "pending", "effects"] as const) hints?.send(hint);
  expect(received).toEqual([]);
  await Promise.resolve();
  expect(received).toEqual(["effects", "pending"]);
});

test("an effect of undone writes is not written", async () => {
  const { store, transactions, key } = setUp();
  const commit = commitOf(key, { undoWrites: true, effects: [newEffect()] });
  const outcome = await transactions.run(requestFor(key, { savepoint: true }), async () => commit);
  expect(outcome.kind).toBe("committed");
  expect(await store.outbox?.ofRecord(commit.life.id)).toEqual([]);
});
