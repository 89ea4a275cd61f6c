import fc from "fast-check";
import { expect, test } from "vitest";
import { conflictPauses, retryPauseMs, workerPauseMs } from "./retry-pause.ts";

const drawn = (fraction: number) => ({ fraction: () => fraction });

test("doubles up to the limit", () => {
  const pauses = { firstMs: 10, maxMs: 100 };
  const longest = [1, 2, 3, 4, 5, 6, 10_000].map((tries) => retryPauseMs(tries, drawn(1), pauses));
  expect(longest).toEqual([10, 20, 40, 80, 100, 100, 100]);
});

test("reaches any limit of a timer, also from 1 ms", () => {
  const maxMs = 2 ** 31 - 1;
  expect(retryPauseMs(40, drawn(1), { firstMs: 1, maxMs })).toBe(maxMs);
});

test("without jitter: from a second up to an hour", () => {
  expect([1, 2, 3, 12, 13, 10_000].map(workerPauseMs)).toEqual([
    1_000, 2_000, 4_000, 2_048_000, 3_600_000, 3_600_000,
  ]);
});

test("differs between those that met, and is never nothing", () => {
  fc.assert(
    fc.property(fc.nat(40), fc.double({ min: 0, max: 1, noNaN: true }), (tries, fraction) => {
      const longest = retryPauseMs(tries + 1, drawn(1), conflictPauses);
      const pause = retryPauseMs(tries + 1, drawn(fraction), conflictPauses);
      expect(pause).toBeGreaterThanOrEqual(longest / 2);
      expect(pause).toBeLessThanOrEqual(longest);
    }),
  );
  expect(retryPauseMs(3, drawn(0), conflictPauses)).not.toBe(retryPauseMs(3, drawn(0.5), conflictPauses));
});
