/** The small bound of every configuration, and the reductions of the search against none at all. */
import { describe, expect, test } from "vitest";
import type { Bound } from "./bound.ts";
import { type Configuration, configurations } from "./configurations.ts";
import { Explorer } from "./explore.ts";
import { exploreAll } from "./plain.ts";
import { tier } from "./tier.ts";
import { configurationNamed } from "./work.ts";

test("every schedule inside the small bounds is right, and what must be reached is", async () => {
  const say = (line: string) => void process.stdout.write(`P1: ${line}\n`);
  const untilMs = Number.POSITIVE_INFINITY;
  const result = await tier.run({ volume: "small", untilMs, seed: 0n, resume: null, say });
  expect(result.covered.every(({ complete, count }) => complete && count > 100)).toBe(true);
  expect(result.resume).toBeNull();
});

test("exploring twice is the same twice", async () => {
  const bound = { switches: 0, crashes: 1, leaseEnds: 0, lost: 0 };
  for (const configuration of configurations) {
    const once = await new Explorer(configuration, bound).run();
    const twice = await new Explorer(configuration, bound).run();
    expect(twice, configuration.name).toEqual(once);
  }
  const lease = configurationNamed("lease");
  const late = { switches: 0, crashes: 0, leaseEnds: 1, lost: 1 };
  const [once, twice] = [await new Explorer(lease, late).run(), await new Explorer(lease, late).run()];
  expect(twice.digest).toBe(once.digest);
});

describe("without any reduction", () => {
  const bound = (digits: string): Bound => {
    const [switches = 0, crashes = 0, leaseEnds = 0, lost = 0] = [...digits].map(Number);
    return { switches, crashes, leaseEnds, lost };
  };
  const cases = [
    ["transaction", "1101", "late"],
    ["transaction", "1111", "lost"],
    ["optimistic", "1101", "late"],
    ["optimistic", "1010", "lost"],
    ["lease", "0100", "late"],
    ["lease", "1000", "late"],
    ["lease", "0010", "late"],
    ["lease", "0001", "late"],
    ["lease", "0001", "replies"],
    ["enqueue-provider", "0010", "lost"],
  ] as const;
  test.each(cases)("there are the same ends: %s within %s, %s", async (name, digits, how) => {
    const configuration: Configuration = { ...configurationNamed(name), losses: how };
    const reduced = await new Explorer(configuration, bound(digits), { alike: false }).run();
    const { ends, schedules } = await exploreAll(configuration, bound(digits));
    expect(new Set(reduced.endTexts)).toEqual(ends);
    // A crash where nobody can tell the difference is tried once.
    if (bound(digits).crashes === 0) expect(schedules).toBe(reduced.schedules);
    else expect(schedules).toBeGreaterThan(reduced.schedules ?? 0);
  });
});

describe("whichever of two alike begins first is called the first of them", () => {
  const alike = { transaction: 2, lease: 2, "enqueue-provider": 4, "lease-other": 1 } as const;
  test.each(Object.entries(alike))("%s: each schedule stands for %d", async (name, count) => {
    const bound = { switches: 1, crashes: 1, leaseEnds: 0, lost: 1 };
    const configuration = configurationNamed(name);
    const all = await new Explorer(configuration, bound, { alike: false }).run();
    const once = await new Explorer(configuration, bound).run();
    expect(all.schedules).toBe((once.schedules ?? 0) * count);
    expect(once.ends).toBeGreaterThan(1);
  });
});

test.each(["lease", "steps-provider-reconcile", "steps-close-resume"])(
  "%s: taking lives for one that got the same replies changes no schedule",
  async (name) => {
    const configuration = configurationNamed(name);
    for (const crashes of [0, 1]) {
      const bound = { switches: 1 - crashes, crashes, leaseEnds: 1, lost: 0 };
      const each = await new Explorer(configuration, bound, { asOne: false }).run();
      const once = await new Explorer(configuration, bound).run();
      expect(once.schedules).toBe(each.schedules);
      expect(new Set(once.endTexts)).toEqual(new Set(each.endTexts));
      expect(once.positions).toBeLessThan(each.positions);
    }
  },
);

test("positions without counts are the same positions", async () => {
  const bound = { switches: 1, crashes: 1, leaseEnds: 0, lost: 1 };
  const configuration = configurationNamed("steps-close-reconcile");
  const counted = await new Explorer(configuration, bound).run();
  const room = counted.positions + 1;
  const seen = await new Explorer(configuration, bound, { uncounted: room }).run();
  expect(seen).toEqual({ ...counted, schedules: null });
  const stopped = new Explorer(configuration, bound, { uncounted: counted.positions - 1 });
  await expect(stopped.run(), "there is no room for the last").rejects.toThrow("harness: more than");
});
