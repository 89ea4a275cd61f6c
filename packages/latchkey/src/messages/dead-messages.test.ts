/** Dead messages: what a person sees of them, and that none is lost while one is published again. */
import { describe, expect, test } from "vitest";
import { message } from "../../../../test/brokers/inbox-arrange.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { encryptionCodec } from "../encryption.ts";
import { createLatchkey, type LatchkeyOptions } from "../latchkey.ts";
import { systemPorts } from "../ports.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import { type Fault, faultyStore, type StoreCall } from "../testing/index.ts";
import type { Message, Verdict } from "./broker.ts";
import { deadMessages, type RedrivenMessage, type Republish } from "./dead-messages.ts";
import { createInbox } from "./inbox.ts";

const by = { operator: "ada", reason: "the bug is mended" };
const codec = encryptionCodec({ keys: { k1: new Uint8Array(32).fill(7) }, current: "k1" });

/** A service whose handler fails until it is mended, over a store that can outlive its process. */
function serviceOn(
  memory = memoryStore(),
  options: Partial<LatchkeyOptions<MemoryTransaction>> = {},
  mended = false,
) {
  const world = { mended };
  const latchkey = createLatchkey({ store: memory, ...options });
  const operation = latchkey.operation("shipments.create");
  const inbox = createInbox<MemoryTransaction, "transaction", { order: number }>(
    latchkey,
    operation,
    { tenant: "shop", failuresMax: 2, backoffMs: 1 },
    async ({ tx, input }) => {
      if (!world.mended) throw new Error("it does not work yet");
      await tx.insert("shipments", { order: input.order });
    },
  );
  /** As a broker does: until it is settled. */
  const deliver = async (message: Message): Promise<Verdict> => {
    for (let one = message; ; one = { ...one, redelivered: true }) {
      const verdict = await inbox.consume(one);
      if (verdict.settle !== "give_back") return verdict;
    }
  };
  const letters = deadMessages(latchkey);
  return { memory, latchkey, world, deliver, letters, rows: () => memory.rows("shipments") };
}

const sentAgain = ({ messageId, body, contentType }: RedrivenMessage, redelivered = false) =>
  message(0, { id: messageId, body, contentType, redelivered });
const unreachable: Republish = () => {
  throw new Error("the broker cannot be reached");
};

async function oneDead(service: ReturnType<typeof serviceOn>, order = 1) {
  await service.deliver(message(order));
  const letter = (await service.letters.list()).at(-1);
  if (letter === undefined) throw new Error("it died");
  return letter;
}

describe("a dead message", () => {
  test("is listed with its reason and counts, and decoded on request", async () => {
    const service = serviceOn(memoryStore(), { codec });
    const letter = await oneDead(service);
    expect(letter).toMatchObject({
      operation: "shipments.create",
      tenant: "shop",
      key: "order-1",
      messageId: "order-1",
      source: "orders",
      reason: "failed",
      contentType: "application/json",
      starts: 2,
      returns: 2,
      failures: 2,
      lastErrorCode: "handler-threw",
    });
    expect(JSON.stringify(letter), "no payload unless it is asked for").not.toContain("payload");
    expect(Buffer.from(await letter.body()).toString()).toBe('{"order":1}');
    expect(await service.letters.find(letter.id)).toMatchObject({ id: letter.id });
    expect(await service.letters.find("019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17")).toBeNull();
    expect(await service.letters.find("order-1")).toBeNull();
    expect(await service.letters.list({ operation: "other" })).toEqual([]);
    expect(await service.letters.list({ tenant: "other" })).toEqual([]);
  });

  test("is found among many, wherever it stands", async () => {
    const service = serviceOn();
    for (let order = 1; order <= 230; order++) await service.deliver(message(order, { id: null }));
    const all = await service.letters.list({ limit: 1_000 });
    expect(all).toHaveLength(230);
    for (const at of [0, 99, 100, 229]) {
      const id = all[at]?.id ?? "";
      expect((await service.letters.find(id))?.id).toBe(id);
    }
  });

  test("has no id to publish under where only a digest of it is kept", async () => {
    const service = serviceOn(memoryStore(), { keySecret: "s".repeat(32) });
    expect(await oneDead(service)).toMatchObject({ messageId: null, key: expect.any(String) });
  });

  test("discarded, it is gone, with an audit row", async () => {
    const service = serviceOn();
    const { id } = await oneDead(service);
    const audit = await service.letters.discard(id, by);
    expect(await service.letters.list()).toEqual([]);
    const key = { tenant: "shop", scope: "shipments.create", key: "order-1" };
    expect(await service.memory.settlement.audit(key)).toMatchObject([
      { id: audit, event: "discard", actor: "ada", reason: "the bug is mended", recordId: id },
    ]);
    expect(await service.letters.discard(id, by)).toBeNull();
  });

  test("is decided by nobody who does not say who and why", async () => {
    const { letters } = serviceOn();
    const id = "019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17";
    await expect(letters.discard(id, { operator: " ", reason: "x" })).rejects.toThrow(TypeError);
    expect(() => letters.redrive(id, { operator: "ada", reason: "" }, unreachable)).toThrow(TypeError);
  });
});

describe("redriven", () => {
  test("it is published under its id and runs once, however often it was published", async () => {
    const service = serviceOn(memoryStore(), { codec });
    const { id } = await oneDead(service);
    service.world.mended = true;
    const published: RedrivenMessage[] = [];
    const audit = await service.letters.redrive(id, by, async (one) => {
      published.push(one);
      expect(await service.deliver(sentAgain(one))).toEqual({ settle: "ack", because: "executed" });
      expect(await service.deliver(sentAgain(one, true))).toEqual({ settle: "ack", because: "duplicate" });
    });
    expect(audit).not.toBeNull();
    expect(published).toMatchObject([{ id, messageId: "order-1", tenant: "shop", reason: "failed" }]);
    expect([service.rows(), await service.letters.list()]).toEqual([[{ order: 1 }], []]);
  });

  // A delivery whose letter stands is acknowledged as dead already: with the letter gone afterwards it would be lost.
  test("a copy that is delivered before `publish` has resolved runs, also as a redelivery", async () => {
    const service = serviceOn();
    const { id } = await oneDead(service);
    service.world.mended = true;
    await service.letters.redrive(id, by, async (one) => {
      expect(await service.deliver(sentAgain(one, true))).toEqual({ settle: "ack", because: "executed" });
    });
    expect(service.rows()).toEqual([{ order: 1 }]);
  });

  test("a copy that dies again meanwhile leaves a letter of its own, with counts of its own", async () => {
    const service = serviceOn();
    const { id } = await oneDead(service);
    await service.letters.redrive(id, by, async (one) => {
      expect(await service.deliver(sentAgain(one))).toEqual({ settle: "dead", because: "failed" });
    });
    const left = await service.letters.list();
    expect(left).toMatchObject([{ messageId: "order-1", failures: 2 }]);
    expect(left[0]?.id).not.toBe(id);
  });

  test("a decision about the earlier death does not hit the later one", async () => {
    const service = serviceOn();
    const { id } = await oneDead(service);
    const copies: RedrivenMessage[] = [];
    await service.letters.redrive(id, by, (copy) => void copies.push(copy));
    for (const copy of copies) await service.deliver(sentAgain(copy));
    const again = await service.letters.list();
    expect(again).toMatchObject([{ messageId: "order-1" }]);
    expect(await service.letters.discard(id, by)).toBeNull();
    expect(await service.letters.redrive(id, by, unreachable)).toBeNull();
    expect(await service.letters.list()).toMatchObject([{ id: again[0]?.id }]);
    expect(again[0]?.id).not.toBe(id);
  });

  test("what could not be published stays, and is redriven under the id that it had or is listed by", async () => {
    for (const idOf of [(first: string) => first, (_: string, listed: string) => listed]) {
      const service = serviceOn(memoryStore(), { codec });
      const { id } = await oneDead(service);
      for (let times = 0; times < 2; times++) {
        await expect(service.letters.redrive(id, by, unreachable)).rejects.toThrow("cannot be reached");
      }
      const [held, ...others] = await service.letters.list();
      expect(others).toEqual([]);
      expect(held).toMatchObject({ messageId: "order-1", reason: "failed", starts: 2, failures: 2 });
      expect(await service.letters.find(id)).toMatchObject({ id: held?.id });
      const bodies: string[] = [];
      const publish: Republish = ({ body }) => void bodies.push(Buffer.from(body).toString());
      expect(await service.letters.redrive(idOf(id, held?.id ?? ""), by, publish)).not.toBeNull();
      expect(bodies).toEqual(['{"order":1}']);
      expect(await service.letters.list()).toEqual([]);
    }
  });

  test("what could not be published can be discarded under the id that it had", async () => {
    const service = serviceOn();
    const { id } = await oneDead(service);
    await expect(service.letters.redrive(id, by, unreachable)).rejects.toThrow();
    expect(await service.letters.discard(id, by)).not.toBeNull();
    expect(await service.letters.list()).toEqual([]);
  });

  test("what cannot be decoded is left as it is", async () => {
    const { memory, letters } = serviceOn(memoryStore(), { codec });
    const service = serviceOn(memory, { codec });
    const { id } = await oneDead(service);
    const other = encryptionCodec({ keys: { k2: new Uint8Array(32) }, current: "k2" });
    const blind = deadMessages(createLatchkey({ store: memory, codec: other }));
    await expect(blind.redrive(id, by, unreachable)).rejects.toMatchObject({
      code: "encryption-key-unknown",
    });
    expect(await letters.find(id)).toMatchObject({ id });
  });

  test("a redrive that was abandoned does not keep a letter after another one has published it", async () => {
    const healthy = serviceOn();
    const { id } = await oneDead(healthy);
    const ports = manualPorts();
    const { messages } = healthy.memory;
    if (messages === null) throw new Error("the memory store has messages");
    const stalled = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    const find: typeof messages.find = async (...of) => {
      arrived.resolve();
      await stalled.promise;
      return messages.find(...of);
    };
    const store = { ...healthy.memory, messages: { ...messages, find } };
    const slow = deadMessages(createLatchkey({ store, ports }));
    const abandoned = expect(slow.redrive(id, by, () => {})).rejects.toMatchObject({ certainty: "in_doubt" });
    await arrived.promise;
    await ports.clock.advance(120_000);
    await abandoned;
    expect(await healthy.letters.redrive(id, by, () => {})).not.toBeNull();
    stalled.resolve();
    // What is left of the abandoned try runs within microtasks on the memory store.
    for (let turn = 0; turn < 100; turn++) await null;
    expect(await healthy.letters.list()).toEqual([]);
  });

  test("what is not dead is not published", async () => {
    const { letters } = serviceOn();
    expect(await letters.redrive("019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17", by, unreachable)).toBeNull();
  });
});

describe("wherever its process dies, or a reply is lost", () => {
  /** Redrives one while `fault` befalls the n-th call to the store. */
  async function redriveWith(fault: "crash_before" | "crash_after" | "reply_lost", nth: number) {
    const healthy = serviceOn(memoryStore(), { codec }, false);
    const { id } = await oneDead(healthy);
    const calls: StoreCall["port"][] = [];
    const reached = Promise.withResolvers<void>();
    const process = faultyStore(healthy.memory, ({ port }) => {
      calls.push(port);
      if (calls.length !== nth) return "proceed";
      if (fault !== "reply_lost") reached.resolve();
      return fault;
    });
    const published: Message[] = [];
    const publish: Republish = (one) => void published.push(sentAgain(one));
    // The time of a process that has died stands still.
    const ports = fault === "reply_lost" ? systemPorts : manualPorts();
    const letters = deadMessages(createLatchkey({ store: process.store, codec, ports }));
    const over = letters.redrive(id, by, publish).then(
      () => "over" as const,
      () => "failed" as const,
    );
    const died = reached.promise.then(async () => {
      // What it had sent still arrives; the store answers within microtasks.
      for (let turn = 0; turn < 100; turn++) await null;
      return "died" as const;
    });
    const ended = await Promise.race([over, died]);
    return { healthy, id, published, ended, calls, publish };
  }

  for (const fault of ["crash_before", "crash_after", "reply_lost"] as const) {
    test(`${fault}: it is a letter or published, and the same command goes on`, async () => {
      let nth = 1;
      for (; ; nth++) {
        const { healthy, id, published, ended, calls, publish } = await redriveWith(fault, nth);
        if (calls.length < nth) break;
        const left = await healthy.letters.list();
        expect(left.length + published.length, `call ${nth}`).toBeGreaterThan(0);
        if (ended !== "over") await healthy.letters.redrive(id, by, publish);
        expect(published.length, `call ${nth}`).toBeGreaterThan(0);
        healthy.world.mended = true;
        for (const one of published) await healthy.deliver(one);
        expect(healthy.rows(), `call ${nth}`).toEqual([{ order: 1 }]);
        expect(await healthy.letters.list(), `call ${nth}`).toEqual([]);
      }
      expect(nth, "calls").toBeGreaterThan(5);
    });
  }
});

test("gone on with under its second id, its first letter goes, too", async () => {
  const service = serviceOn();
  const { id } = await oneDead(service);
  const { store } = faultyStore(service.memory, ({ port }) =>
    port === "removeMessage" ? "crash_before" : "proceed",
  );
  void deadMessages(createLatchkey({ store, ports: manualPorts() })).redrive(id, by, unreachable);
  await expect.poll(() => service.letters.list()).toHaveLength(2);
  const second = (await service.letters.list()).find((letter) => letter.id !== id);
  const published: RedrivenMessage[] = [];
  await service.letters.redrive(second?.id ?? "", by, async (one) => {
    published.push(one);
  });
  expect(published).toHaveLength(1);
  expect(await service.letters.list()).toEqual([]);
});

describe("two people at once", () => {
  /** Somebody whose redrive has found the letter, and is held up before it writes anything. */
  async function heldUp(service: ReturnType<typeof serviceOn>, id: string) {
    const gate = Promise.withResolvers<Fault>();
    const asked = Promise.withResolvers<void>();
    const { store } = faultyStore(service.memory, ({ port }) => {
      if (port !== "buryMessage") return "proceed";
      asked.resolve();
      return gate.promise;
    });
    const published: RedrivenMessage[] = [];
    const redriven = deadMessages(createLatchkey({ store })).redrive(id, by, async (one) => {
      published.push(one);
    });
    await asked.promise;
    const finish = () => {
      gate.resolve("proceed");
      return redriven;
    };
    return { goOn: finish, published };
  }

  test.each(["discard", "redrive"] as const)(
    "%s first: the slower one does nothing, and leaves no letter",
    async (first) => {
      const service = serviceOn();
      const { id } = await oneDead(service);
      const slow = await heldUp(service, id);
      const published: RedrivenMessage[] = [];
      const publish: Republish = async (one) => {
        published.push(one);
      };
      const { letters } = service;
      const audit = await (first === "discard" ? letters.discard(id, by) : letters.redrive(id, by, publish));
      expect(audit).not.toBeNull();
      expect(await slow.goOn()).toBeNull();
      expect([published.length, slow.published.length]).toEqual([first === "redrive" ? 1 : 0, 0]);
      expect(await letters.list()).toEqual([]);
    },
  );

  test("while the faster one publishes, its letter stands", async () => {
    const service = serviceOn();
    const { id } = await oneDead(service);
    const slow = await heldUp(service, id);
    const publishing = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const fast = service.letters.redrive(id, by, () => {
      begun.resolve();
      return publishing.promise;
    });
    await begun.promise;
    expect(await slow.goOn()).toBeNull();
    expect(await service.letters.list()).toHaveLength(1);
    publishing.reject(new Error("the broker cannot be reached"));
    await expect(fast).rejects.toThrow("the broker cannot be reached");
    expect(await service.letters.list(), "nothing is lost").toHaveLength(1);
  });
});
