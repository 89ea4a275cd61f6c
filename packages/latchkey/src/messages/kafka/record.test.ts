import { expect, test } from "vitest";
import { uncommittedMax } from "./commits.ts";
import { type KafkaRecord, messageOf, recordOfKafkaJs, recordOfPlatformatic } from "./record.ts";
import { Begun } from "./settling.ts";

const text = (value: string) => Buffer.from(value, "utf8");
const header = { header: "message-id" } as const;
const place = { topic: "orders", partition: 3 } as const;

function recordAt(offset: bigint, partition = 3): KafkaRecord {
  return { ...place, partition, offset, leaderEpoch: 0, key: null, value: text("{}"), headers: [] };
}

test("both clients' records are the same message", () => {
  const headers = { "message-id": text("a"), "content-type": text("application/json"), tag: text("x") };
  const left = recordOfKafkaJs("orders", 3, { key: text("k"), value: text("{}"), offset: "7", headers });
  const right = recordOfPlatformatic({
    ...place,
    key: text("k"),
    value: text("{}"),
    offset: 7n,
    leaderEpoch: 2,
    headers: new Map(Object.entries(headers).map(([name, value]) => [text(name), value])),
  });
  const message = messageOf(left, header, true);
  expect(messageOf(right, header, true)).toEqual(message);
  expect(message).toEqual({
    id: "a",
    source: "orders",
    body: text("{}"),
    contentType: "application/json",
    headers: {
      "message-id": "a",
      "content-type": "application/json",
      tag: "x",
      kafka_key: "k",
      kafka_partition: 3,
      kafka_offset: "7",
    },
    system: "kafka",
    redelivered: true,
  });
});

test("its id is one header's text, or its place", () => {
  const twice = [text("a"), text("b")];
  const record = recordOfKafkaJs("orders", 3, {
    key: null,
    value: null,
    offset: "9007199254740993",
    headers: { twice, empty: "", gone: undefined },
  });
  for (const name of ["twice", "empty", "absent"])
    expect(messageOf(record, { header: name }, false).id).toBeNull();
  const message = messageOf(record, "offset", false);
  expect([message.id, message.headers.twice]).toEqual(["orders-3-9007199254740993", ["a", "b"]]);
  expect(message.body).toHaveLength(0);
});

test("what may have begun: the first ones of an assignment, and what has", () => {
  const begun = new Begun();
  const first = 1_000n;
  for (let index = 0; index <= uncommittedMax; index++) {
    expect(begun.add(recordAt(first + BigInt(index))), String(index)).toBe(true);
  }
  const next = first + BigInt(uncommittedMax) + 1n;
  expect(begun.add(recordAt(next))).toBe(false);
  expect(begun.add(recordAt(next)), "again").toBe(true);
  expect(begun.add(recordAt(first)), "wound back").toBe(true);
  expect(begun.add(recordAt(next + 1n))).toBe(false);
  expect(begun.add(recordAt(0n, 4)), "another partition").toBe(true);
});
