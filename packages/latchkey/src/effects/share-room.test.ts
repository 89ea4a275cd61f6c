import fc from "fast-check";
import { expect, test } from "vitest";
import { shareRoom } from "./share-room.ts";

const idle = { own: 1_000, inFlight: 0, hungry: false };

test("one effect may have it all", () => {
  expect(shareRoom(100, [idle], 0)).toEqual([100]);
});

test("what is not in use is kept for those that do not use it", () => {
  expect(shareRoom(100, [{ ...idle, inFlight: 75, hungry: true }, idle], 0)).toEqual([0, 25]);
  const full = { ...idle, inFlight: 40, hungry: true };
  const [first, second, third] = shareRoom(100, [full, full, idle], 0);
  expect([first, second]).toEqual([expect.any(Number), expect.any(Number)]);
  expect(third).toBeGreaterThan(0);
});

test("a hungry one gets the larger part", () => {
  const [hungry = 0, other = 0] = shareRoom(100, [{ ...idle, hungry: true }, idle], 0);
  expect(hungry).toBeGreaterThan(60);
  expect(other).toBeGreaterThan(5);
});

test("with less room than effects, each has its turn", () => {
  const effects = [idle, idle, idle];
  const turns = [0, 1, 2].map((turn) => shareRoom(1, effects, turn));
  expect(turns).toEqual([
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ]);
});

test("never more than there is, and nothing is left over that somebody could have", () => {
  const room = fc.record({ own: fc.nat(200), inFlight: fc.nat(50), hungry: fc.boolean() });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 300 }),
      fc.array(room, { maxLength: 8 }),
      fc.nat(9),
      (size, rooms, turn) => {
        const given = shareRoom(size, rooms, turn);
        const inFlight = rooms.reduce((sum, one) => sum + one.inFlight, 0);
        const total = given.reduce((sum, one) => sum + one, 0);
        expect(total).toBeLessThanOrEqual(Math.max(0, size - inFlight));
        for (const [at, one] of rooms.entries()) {
          expect(given[at]).toBeGreaterThanOrEqual(0);
          expect(given[at]).toBeLessThanOrEqual(one.own);
        }
      },
    ),
  );
});
