import { afterEach, expect, test, vi } from "vitest";
import type { Sitting, TierResult } from "../harness/tier.ts";
import type { Part } from "./part.ts";
import { runParts, tier } from "./tier.ts";

afterEach(() => vi.unstubAllEnvs());

const ran: { readonly name: string; readonly resume: unknown; readonly forMs: number }[] = [];

/** It is over at its second sitting. */
function part(name: string): Part {
  return {
    name,
    async run({ resume, untilMs }): Promise<TierResult> {
      ran.push({ name, resume, forMs: untilMs - performance.now() });
      const covered = [{ what: name, bound: "b", count: 1, of: 2, complete: resume !== null }];
      const counts = { reached: { both: 1, [name]: 1 }, faults: { kill: 2 }, versions: { [name]: "1" } };
      return { ...counts, covered, notRun: [], resume: resume === null ? "more" : null };
    },
  };
}

function sitting(resume: unknown, forMs = Number.POSITIVE_INFINITY): Sitting {
  return { volume: "full", untilMs: performance.now() + forMs, seed: 1n, resume, say: () => {} };
}

test("parts share the time, go on where they ended, and are added up", async () => {
  const parts = [part("one"), part("two")];
  const first = await runParts(parts, sitting(null, 60_000));
  expect(first).toMatchObject({ reached: { both: 2, one: 1 }, faults: { kill: 4 } });
  expect(ran.map(({ name }) => name)).toEqual(["one", "two"]);
  expect(ran[0]?.forMs).toBeLessThanOrEqual(30_000);
  expect(ran[1]?.forMs).toBeGreaterThan(30_000);
  const second = await runParts(parts, sitting(first.resume));
  expect(ran.slice(2).map(({ resume }) => resume)).toEqual(["more", "more"]);
  expect(second.resume).toBeNull();
});

test("a part that is over is not begun again, unless it is named", async () => {
  const begun = { one: { over: true, resume: null } };
  ran.length = 0;
  await runParts([part("one"), part("two")], sitting(begun));
  expect(ran.map(({ name }) => name)).toEqual(["two"]);
  vi.stubEnv("LATCHKEY_PROOF_ONLY", "one:7");
  await runParts([part("one"), part("two")], sitting(begun));
  expect(ran.map(({ name }) => name)).toEqual(["two", "one"]);
});

test("it is tier P6", () => {
  expect(tier.id).toBe("P6");
});
