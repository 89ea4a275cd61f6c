import { describe, expect, test } from "vitest";
import { downstreamKey, recordIdOf } from "./downstream-key.ts";

const call = {
  recordId: "019f0c3a-7f00-7000-8000-000000000001",
  step: "charged",
  effect: "provider.charge",
  index: 0,
  generation: 0,
};

describe("downstream keys", () => {
  // Providers remember these keys: if one changes, the deployment charges a second time for every call in doubt.
  test.each([
    [call, "lk_uU9vYX47CKP4j1K4nRuT1gAZ8MOn8AcACAAAAAAAAAAQ"],
    [{ ...call, generation: 1 }, "lk_VvPev32WZkf4Q7XBLTaEugAZ8MOn8AcACAAAAAAAAAAQ"],
    [{ ...call, index: 1 }, "lk_NHk0FCAcmpvmOhtsL4kljwAZ8MOn8AcACAAAAAAAAAAQ"],
    [{ ...call, step: "Zahlung ü 💶", effect: "é" }, "lk_7PxZ_6JKPj_ZEfNaen8CRQAZ8MOn8AcACAAAAAAAAAAQ"],
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
    for (const key of others.map(downstreamKey)) expect(key).toMatch(/^lk_[A-Za-z0-9_-]{44}$/);
  });

  test("name the record that they were made for; other texts name none", () => {
    for (const generation of [0, 1])
      expect(recordIdOf(downstreamKey({ ...call, generation }))).toBe(call.recordId);
    for (const other of [
      "",
      "lk_",
      "order-1",
      "lk_PD-Eb9Vu8Ly7P2YHLAXPEsJzORIzKm-d86JWRXul6ok",
      call.recordId,
    ]) {
      expect(recordIdOf(other)).toBeNull();
    }
    // Ids of a test's own are stable, too.
    const ofTest = { ...call, recordId: "order-1" };
    expect(downstreamKey(ofTest)).toBe(downstreamKey({ ...ofTest }));
    expect(downstreamKey(ofTest)).not.toBe(downstreamKey({ ...ofTest, recordId: "order-2" }));
  });
});
