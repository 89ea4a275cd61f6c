/** The provider charges, and never answers. */
import { beforeAll, describe, expect, test } from "vitest";
import {
  answered,
  type ChargingLab,
  type ChargingProcess,
  insist,
  openChargingLab,
  type Shop,
} from "./charging.ts";
import { nameOf } from "./charging-work.ts";

const mute = "time-out-after-charging";
/** An attempt sends at most twice. */
const always = Array<string>(2).fill(mute);

let lab: ChargingLab;
let shop: Shop;
let client: ChargingProcess;
let worker: ChargingProcess;

beforeAll(async () => {
  lab = await openChargingLab();
  shop = await lab.shop("timeouts");
  const survivor = { leaseMs: 30_000 };
  [client, worker] = await Promise.all([shop.open({ ...survivor, timeoutMs: 1_000 }), shop.open(survivor)]);
  await worker.start("rescuer", "reconciler", "cleaner");
});

const sendsOf = (order: string) =>
  [client, worker].flatMap((process) => process.linesOf(order)).filter(({ sends }) => sends !== undefined);

/** It has come to a completion by itself: one charge, and the same bytes for everybody. */
async function expectCompleted(operation: string, order: string): Promise<void> {
  const first = await insist(client, operation, { order });
  expect(first).toMatchObject({ status: 201 });
  const again = await Promise.all([client, worker].map((process) => insist(process, operation, { order })));
  expect(again.map(answered)).toEqual([answered(first), answered(first)]);
  expect(lab.charges(order)).toHaveLength(1);
  expect(await shop.rows(order)).toEqual({ orders: 1, settled: 1 });
}

describe.each(["resume", "reconcile"] as const)("lease end %s", (leaseEnd) => {
  test("provider: sent again under its key in the same attempt, charged once", async () => {
    const operation = nameOf({ kind: "provider", leaseEnd, finishes: true });
    const order = `once-${leaseEnd}`;
    const { reply } = await client.submit(operation, { order }, { modes: [mute] }).ended;
    expect(reply).toMatchObject({ kind: "executed", status: 201 });
    expect(sendsOf(order)).toHaveLength(2);
    expect(new Set(sendsOf(order).map(({ sends }) => sends)).size).toBe(1);
    await expectCompleted(operation, order);
  });

  test("provider: mute for a whole attempt, unknown at first; then sent again, charged once", async () => {
    const operation = nameOf({ kind: "provider", leaseEnd, finishes: true });
    const order = `always-${leaseEnd}`;
    const { reply } = await client.submit(operation, { order }, { modes: always }).ended;
    expect(reply).toMatchObject({ kind: "unknown" });
    await expectCompleted(operation, order);
    expect(await shop.proofs(operation, order)).toEqual(["downstream-deduplicates"]);
  });

  test.each(["close", "reopen", "lookup"] as const)(
    "%s: found, resumed, completed, never sent again",
    async (kind) => {
      const operation = nameOf({ kind, leaseEnd, finishes: true });
      const order = `${kind}-${leaseEnd}`;
      const { reply } = await client.submit(operation, { order }, { modes: always }).ended;
      expect(reply).toMatchObject({ kind: "unknown" });
      await expectCompleted(operation, order);
      expect(await shop.proofs(operation, order)).toEqual(["found-downstream"]);
      expect(sendsOf(order)).toHaveLength(1);
    },
  );

  test("none: unknown, nothing sent again, and shown to the operator", async () => {
    const operation = nameOf({ kind: "none", leaseEnd, finishes: true });
    const order = `none-${leaseEnd}`;
    const { reply } = await client.submit(operation, { order }, { modes: always }).ended;
    expect(reply).toEqual({ kind: "unknown", retryAfterMs: null });
    for (const service of ["rescuer", "reconciler", "cleaner"] as const) await worker.work(service);
    for (const process of [client, worker]) {
      const again = await process.submit(operation, { order }).ended;
      expect(again.reply).toEqual({ kind: "unknown", retryAfterMs: null });
    }
    expect(sendsOf(order)).toHaveLength(1);
    expect(lab.charges(order)).toHaveLength(1);
    const listed = (await shop.list("unknown")).filter(({ key }) => key === order);
    expect(listed).toMatchObject([{ operation, lastErrorCode: "call-in-doubt", reconcileAfter: null }]);
  });
});
