/** Messages of operations that own their work, effects that leave with a message, and dead letters under a codec. */
import { expect, test } from "vitest";
import { encryptionCodec } from "../encryption.ts";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import { effectDispatcher } from "../workers/effect-dispatcher.ts";
import type { Message } from "./broker.ts";
import { createInbox } from "./inbox.ts";

const message: Message = {
  id: "order-7",
  source: "orders",
  body: Buffer.from('{"order":7}'),
  contentType: "application/json",
  headers: {},
  redelivered: false,
};
const again: Message = { ...message, redelivered: true };

test("effects of a message exist once, when it has committed", async () => {
  const store = memoryStore();
  const latchkey = createLatchkey({ store });
  const sent: unknown[] = [];
  const mail = latchkey.effect("mail", {
    deduplication: "none",
    execute: async (input: { order: number }) => sent.push(input),
  });
  let failing = true;
  const inbox = createInbox(
    latchkey,
    latchkey.operation("op"),
    { tenant: "t", decode: ({ body }) => JSON.parse(Buffer.from(body).toString()) as { order: number } },
    async ({ tx, attempt, input }) => {
      await tx.insert("orders", input);
      attempt.enqueue(mail, input);
      if (failing) throw new Error("not yet");
    },
  );
  const dispatcher = effectDispatcher(latchkey);
  expect((await inbox.consume(message)).settle).toBe("give_back");
  await dispatcher.runOnce();
  expect(sent).toEqual([]);
  failing = false;
  expect((await inbox.consume(again)).because).toBe("executed");
  expect((await inbox.consume(again)).because).toBe("duplicate");
  await dispatcher.runOnce();
  await dispatcher.runOnce();
  expect([sent, store.rows("orders").length]).toEqual([[{ order: 7 }], 1]);
});

test("an operation with phases goes on after its last one when its message comes again", async () => {
  const store = memoryStore();
  const latchkey = createLatchkey({ store });
  const ran: string[] = [];
  let failing = true;
  const operation = latchkey.operation("op", {
    execution: "lease",
    version: "1",
    run: async ({ order }: { order: number }, attempt) => {
      await attempt.phase("reserve", async (tx) => {
        ran.push("reserve");
        await tx.insert("reservations", { order });
      });
      return attempt.finish("ship", async (tx) => {
        ran.push("ship");
        if (failing) throw new Error("not yet");
        await tx.insert("shipments", { order });
        return { status: 200 };
      });
    },
  });
  const inbox = createInbox(latchkey, operation, { tenant: "t" });
  expect((await inbox.consume(message)).settle).toBe("give_back");
  failing = false;
  expect((await inbox.consume(again)).because).toBe("executed");
  expect((await inbox.consume(again)).because).toBe("duplicate");
  expect(ran).toEqual(["reserve", "ship", "ship"]);
  expect([store.rows("reservations").length, store.rows("shipments").length]).toEqual([1, 1]);
});

test("a deferred operation has accepted its message: a worker runs it", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("op", {
    execution: "deferred",
    version: "1",
    run: async () => ({ status: 200 }),
  });
  const inbox = createInbox(latchkey, operation, { tenant: "t" });
  expect(await inbox.consume(message)).toEqual({ settle: "ack", because: "accepted" });
  expect(inbox.counts().accepted).toBe(1);
});

test("a dead letter passes through the codec, under the place it belongs to", async () => {
  const store = memoryStore();
  const codec = encryptionCodec({ keys: { k: Buffer.alloc(32, 7) }, current: "k" });
  const latchkey = createLatchkey({ store, codec });
  const inbox = createInbox(latchkey, latchkey.operation("op"), { tenant: "t" }, async () => {});
  const canary = { ...message, id: null, body: Buffer.from("canary") };
  expect((await inbox.consume(canary)).settle).toBe("dead");
  const [letter] =
    (await store.messages?.list({ operation: null, tenant: null, limit: 1, after: null })) ?? [];
  if (letter === undefined) throw new Error("no letter");
  expect(Buffer.from(letter.payload).includes("canary")).toBe(false);
  const place = { tenant: "t", scope: "op", key: "", recordId: letter.digest, part: "message" } as const;
  const plain = await codec.decode(letter.payload, {
    ...place,
    fingerprint: Buffer.from(letter.digest, "hex"),
  });
  expect(Buffer.from(plain).toString()).toBe("canary");
  const elsewhere = { ...place, key: "other", fingerprint: Buffer.from(letter.digest, "hex") };
  expect(() => codec.decode(letter.payload, elsewhere)).toThrow();
});
