import { expect, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { memoryStore } from "../../stores/memory.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";
import type { Message, Verdict } from "../broker.ts";
import type { Inbox } from "../inbox.ts";
import type { KafkaJsProducer } from "./client.ts";
import { type KafkaRecord, recordOfKafkaJs } from "./record.ts";
import { Settling } from "./settling.ts";

const record: KafkaRecord = recordOfKafkaJs("orders", 3, { key: null, value: null, offset: "7" });

function setUp(verdict: Verdict, send: KafkaJsProducer["send"] = async () => {}) {
  const events: LatchkeyEvent[] = [];
  const { runtime } = createLatchkey({ store: memoryStore(), onEvent: (one) => events.push(one) });
  const messages: Message[] = [];
  const inbox = {
    async consume(message: Message) {
      messages.push(message);
      return verdict;
    },
  } as unknown as Inbox;
  const deadLetterTopic = { producer: { isIdempotent: () => true, send }, topic: "dead" };
  return { events, messages, settling: new Settling(runtime, inbox, { idFrom: "offset", deadLetterTopic }) };
}

const dead: Verdict = { settle: "dead", because: "failed" };

test("a dead letter is settled when its topic has taken it, not before", async () => {
  let refusals = 1;
  const { settling, events } = setUp(dead, async () => {
    if (refusals-- > 0) throw new Error("the topic does not take it");
  });
  expect(await settling.take(record, false)).toBe(1_000);
  expect(events.map(({ type }) => type)).toContain("service_error");
  expect(await settling.take(record, false)).toBeNull();
});

test("the inbox is notified whether it may have been delivered before", async () => {
  const { settling, messages } = setUp({ settle: "ack", because: "executed" });
  for (const redelivered of [true, false]) await settling.take(record, redelivered);
  expect(messages.map(({ redelivered }) => redelivered)).toEqual([true, false]);
});
