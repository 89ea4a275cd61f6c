/** Webhooks about effects in the outbox. */
import { describe, expect, test } from "vitest";
import { deliveryWorld } from "../../../../test/support/delivery-world.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";

const result = { id: "ch_webhook", amount: 5 };
type Start = NonNullable<Parameters<ReturnType<typeof deliveryWorld>["start"]>[0]>;

/** @param send what the other side does; `proceed`: it takes the charge. */
async function world(kind: "provider" | "none", options: Start = {}) {
  const outside = deliveryWorld(kind);
  await outside.enqueue(5);
  const process = outside.start({
    ...options,
    effect: {
      onDelivered: async ({ result: { id } }, tx) => tx.insert("receipts", { id }),
      ...options.effect,
    },
  });
  const [effect] = await outside.open();
  const target = { downstreamKey: effect?.downstreamKey ?? "" };
  const place = { tenant: "t", scope: "order", key: "k1" };
  return {
    ...outside,
    ...process,
    target,
    settle: () => process.latchkey.settle(target, { result }),
    audit: () => outside.store.settlement.audit(place),
    round: async (afterMs = 0) => {
      await outside.ports.clock.advance(afterMs);
      return process.dispatcher.runOnce();
    },
    receipts: () => outside.store.rows("receipts"),
    settled: () => outside.events.filter(({ type }: LatchkeyEvent) => type === "settled"),
  };
}

describe("a webhook about an effect in the outbox", () => {
  test("that waits: it is delivered with the webhook's result, and not sent", async () => {
    const { settle, round, ledger, receipts, inState, audit, settled } = await world("provider");
    expect(await settle()).toMatchObject({ kind: "settled" });
    expect(await settle(), "again").toMatchObject({ kind: "settled" });
    expect(settled()).toMatchObject([{ event: "confirm", actor: "webhook", proof: "webhook" }, {}]);
    expect(await round()).toMatchObject({ delivered: 1 });
    expect(ledger.requests).toEqual([]);
    expect(receipts()).toEqual([{ id: "ch_webhook" }]);
    expect(await inState("delivered")).toHaveLength(1);
    expect(await audit()).toMatchObject([{ event: "confirm", from: "pending", to: "pending" }]);
  });

  test("that is dead: it is delivered after all", async () => {
    const lost = () => "lost_after" as const;
    const { settle, round, ledger, receipts, inState, audit } = await world("none", { send: lost });
    for (let run = 0; run < 3; run++) await round(60_000);
    expect(await inState("dead")).toHaveLength(1);
    const sent = ledger.requests.length;
    expect(await settle()).toMatchObject({ kind: "settled" });
    expect(await round()).toMatchObject({ delivered: 1 });
    expect(ledger.requests).toHaveLength(sent);
    expect(receipts()).toEqual([{ id: "ch_webhook" }]);
    expect(await audit()).toMatchObject([{ event: "confirm", from: "dead", to: "pending" }]);
  });

  test("that is being sent, and whose reply is lost: it is not sent again", async () => {
    const kept: unknown[] = [];
    const before: { settle?: () => Promise<unknown> } = {};
    const send = async () => {
      kept.push(await before.settle?.());
      return "lost_after" as const;
    };
    const made = await world("provider", { send });
    before.settle = made.settle;
    expect(await made.round()).toMatchObject({ retried: 1 });
    expect(kept).toMatchObject([{ kind: "settled" }]);
    expect(await made.open()).toMatchObject([{ sends: 1, returns: 1 }]);
    expect(await made.round(60_000)).toMatchObject({ delivered: 1 });
    expect(made.ledger.requests).toHaveLength(1);
    expect(made.receipts()).toEqual([{ id: "ch_webhook" }]);
  });

  test("that is being sent, and returns: its own result counts", async () => {
    const before: { settle?: () => Promise<unknown> } = {};
    const send = async () => {
      await before.settle?.();
      return "proceed" as const;
    };
    const made = await world("provider", { send });
    before.settle = made.settle;
    expect(await made.round()).toMatchObject({ delivered: 1 });
    expect(made.receipts()).toEqual([{ id: "ch_1" }]);
  });

  test("that is delivered, and settlements that do not apply to deliveries", async () => {
    const { latchkey, target, settle, round } = await world("provider");
    const failed = { failed: { status: 402 } };
    expect(await latchkey.settle(target, failed)).toMatchObject({ kind: "no_such_call" });
    const call = { call: "charge", result };
    expect(await latchkey.settle(target, call)).toMatchObject({ kind: "no_such_call" });
    await round();
    expect(await settle()).toMatchObject({ kind: "already_delivered" });
  });
});
