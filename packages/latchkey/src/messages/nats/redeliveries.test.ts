import { describe, expect, test } from "vitest";
import { Redeliveries } from "./redeliveries.ts";

/** Which of these deliveries count as redelivered; each has its place in the stream and in the consumer's sequence. */
function redelivered(ackPending: number | null, deliveries: readonly Sequences[]): readonly boolean[] {
  const redeliveries = new Redeliveries(ackPending);
  return deliveries.map(([seq, deliverySequence, again]) =>
    redeliveries.isRedelivered({ seq, info: { deliverySequence }, redelivered: again === "again" }),
  );
}

type Sequences = readonly [stream: number, consumer: number, again?: "again"];

describe("a message counts as redelivered", () => {
  test("while messages from before the start may come as if they were new", () => {
    expect(
      redelivered(2, [
        [7, 9],
        [8, 10],
        [9, 11],
      ]),
    ).toEqual([true, true, false]);
  });

  test("if the server says so, without taking the place of one that it says nothing of", () => {
    expect(
      redelivered(1, [
        [3, 9, "again"],
        [7, 10],
        [8, 11],
      ]),
    ).toEqual([true, true, false]);
  });

  test("if it was here before", () => {
    expect(
      redelivered(0, [
        [1, 1],
        [2, 2],
        [2, 3],
        [1, 4],
        [3, 5],
      ]),
    ).toEqual([false, false, true, true, false]);
  });

  test("after as many redeliveries to others, whose messages may come as if they were new", () => {
    expect(
      redelivered(0, [
        [1, 1],
        [3, 5],
        [4, 6],
        [5, 7],
      ]),
    ).toEqual([false, true, true, false]);
  });

  test("but not because others have had new ones, or because of redeliveries here", () => {
    expect(
      redelivered(0, [
        [1, 1],
        [4, 4],
        [2, 5, "again"],
        [3, 6, "again"],
        [5, 7],
      ]),
    ).toEqual([false, false, true, true, false]);
  });

  test("not for ever after a consumer was made anew under its name, with a stream of other messages", () => {
    const before: Sequences = [5_000, 5_000];
    const after = Array.from({ length: 1_001 }, (_, at): Sequences => [at + 1, at + 1]);
    const found = redelivered(0, [before, ...after]);
    expect([found[0], found[1], found[1_000], found[1_001]]).toEqual([false, true, true, false]);
  });
});
