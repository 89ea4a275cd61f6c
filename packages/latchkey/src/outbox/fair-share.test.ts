import fc from "fast-check";
import { expect, test } from "vitest";
import { fairShare } from "./fair-share.ts";

const idle = { own: 1_000, inFlight: 0, hasBacklog: false };

test("a single effect gets all capacity", () => {
  expect(fairShare(100, [idle], 0)).toEqual([100]);
});

test("unused parts are reserved for the effects that do not use them", () => {
  expect(fairShare(100, [{ ...idle, inFlight: 75, hasBacklog: true }, idle], 0)).toEqual([0, 25]);
  const full = { ...idle, inFlight: 40, hasBacklog: true };
  const [first, second, third] = fairShare(100, [full, full, idle], 0);
  expect([first, second]).toEqual([expect.any(Number), expect.any(Number)]);
  expect(third).toBeGreaterThan(0);
});

test("an effect with a backlog gets the larger part", () => {
  const [backlogged = 0, other = 0] = fairShare(100, [{ ...idle, hasBacklog: true }, idle], 0);
  expect(backlogged).toBeGreaterThan(60);
  expect(other).toBeGreaterThan(5);
});

test("with more effects than capacity, each gets its turn", () => {
  const effects = [idle, idle, idle];
  const turns = [0, 1, 2].map((turn) => fairShare(1, effects, turn));
  expect(turns).toEqual([
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ]);
});

test("never exceeds the capacity, and leaves none unused that an effect could use", () => {
  const capacity = fc.record({ own: fc.nat(200), inFlight: fc.nat(50), hasBacklog: fc.boolean() });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 300 }),
      fc.array(capacity, { maxLength: 8 }),
      fc.nat(9),
      (size, capacities, turn) => {
        const given = fairShare(size, capacities, turn);
        const inFlight = capacities.reduce((sum, one) => sum + one.inFlight, 0);
        const total = given.reduce((sum, one) => sum + one, 0);
        expect(total).toBeLessThanOrEqual(Math.max(0, size - inFlight));
        for (const [at, one] of capacities.entries()) {
          expect(given[at]).toBeGreaterThanOrEqual(0);
          expect(given[at]).toBeLessThanOrEqual(one.own);
        }
      },
    ),
  );
});
