import { describe, expect, test } from "vitest";
import { Redeliveries } from "./redeliveries.ts";

/** Which of these deliveries count as redelivered; each has its place in the stream and in the consumer's sequence. */
function redelivered(
  start: number | { readonly ackPending: number; readonly delivered: Sequences },
  deliveries: readonly Sequences[],
): readonly boolean[] {
  const { ackPending, delivered } =
    typeof start === "number" ? { ackPending: start, delivered: null } : start;
  const latest = delivered && { stream: delivered[0], consumer: delivered[1] };
  const redeliveries = new Redeliveries({ ackPending, latest });
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

  test("if others had it before the first delivery here", () => {
    const start = { ackPending: 0, delivered: [0, 0] } as const;
    const deliveries: readonly Sequences[] = [
      [3, 4],
      [4, 5],
    ];
    expect(redelivered(start, deliveries)).toEqual([true, false]);
    expect(redelivered({ ackPending: 0, delivered: [3, 3] }, deliveries)).toEqual([true, false]);
  });

  test("but not because others had new ones before the first delivery here", () => {
    expect(redelivered({ ackPending: 0, delivered: [7, 9] }, [[10, 12]])).toEqual([false]);
  });

  test("if the server had stepped back before the start, and it is not acknowledged", () => {
    const start = { ackPending: 1, delivered: [2, 3] } as const;
    expect(
      redelivered(start, [
        [3, 4],
        [4, 5],
      ]),
    ).toEqual([true, false]);
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

  test.each<[string, readonly Sequences[]]>([
    [
      "a new message",
      [
        [1, 1],
        [1, 2, "again"],
        [1, 3, "again"],
        [1, 4, "again"],
        [2, 2],
      ],
    ],
    [
      "none",
      [
        [5, 9, "again"],
        [5, 10, "again"],
        [6, 1],
      ],
    ],
  ])(
    "if the consumer's sequence goes back behind a redelivered message, and before that came %s",
    (_, deliveries) => {
      expect(redelivered(0, deliveries).at(-1)).toBe(true);
    },
  );

  test("if the consumer's sequence is behind what the server reported at the start", () => {
    expect(redelivered({ ackPending: 0, delivered: [5, 9] }, [[6, 3]])).toEqual([true]);
  });
});
