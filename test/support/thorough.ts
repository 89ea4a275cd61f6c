/**
 * Whether tests run in every combination: `npm run test:all`, or the full volumes of the proof (LATCHKEY_PROVE=1).
 * `npm test` has four minutes on two processors: what several combinations show in the same way, it shows in one.
 * A test file that only `test:all` is to run is named `<topic>.all.test.ts`.
 */
export const isThorough = process.env.LATCHKEY_TEST_ALL === "1" || process.env.LATCHKEY_PROVE === "1";

/** Whether tests also run the volumes of the proof, which take hours (LATCHKEY_PROVE=1). */
export const isProof = process.env.LATCHKEY_PROVE === "1";

/** `count` of them, spread over the whole list; all of them when tests run in every combination. */
export function sample<T>(all: readonly T[], count: number): readonly T[] {
  if (isThorough || all.length <= count) return all;
  return Array.from({ length: count }, (_, index) => all[Math.floor((index * all.length) / count)] as T);
}
