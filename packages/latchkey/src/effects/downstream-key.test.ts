import { describe, expect, test } from "vitest";
import { downstreamKey } from "./downstream-key.ts";

const call = {
  recordId: "019f0c3a-7f00-7000-8000-000000000001",
  step: "charged",
  effect: "provider.charge",
  index: 0,
  generation: 0,
};

describe("downstream keys", () => {
  // They are in providers' memories: a change here charges twice what is in doubt when it is deployed.
  test.each([
    [call, "lk_PD-Eb9Vu8Ly7P2YHLAXPEsJzORIzKm-d86JWRXul6ok"],
    [{ ...call, generation: 1 }, "lk_4OCspQz-3qyMFeuMHVUC7cvx0fcHD60fp-ZXfYLxjMc"],
    [{ ...call, index: 1 }, "lk_NNISuGQE2-scswJ-lA7rx5CO5YjolXZwnwH4OGCf1ls"],
    [{ ...call, step: "Zahlung ü 💶", effect: "é" }, "lk_4411c0yYg9f4rERfqx4N9kQ2gHKzNmlOh17d4LGWf5U"],
  ])("never change: %j", (given, key) => {
    expect(downstreamKey(given)).toBe(key);
  });

  test("differ with every part, and parts cannot run into each other", () => {
    const others = [
      call,
      { ...call, recordId: "019f0c3a-7f00-7000-8000-000000000002" },
      { ...call, step: "charge", effect: "dprovider.charge" },
      { ...call, step: "chargedp", effect: "rovider.charge" },
      { ...call, index: 1 },
      { ...call, generation: 1 },
      { ...call, index: 11, generation: 0 },
      { ...call, index: 1, generation: 10 },
    ];
    expect(new Set(others.map(downstreamKey)).size).toBe(others.length);
    for (const key of others.map(downstreamKey)) expect(key).toMatch(/^lk_[A-Za-z0-9_-]{43}$/);
  });
});
