/** Sends a crash suspect if no other one is being sent; otherwise gives it back. */
import type { Delivery, DeliveryResult } from "./delivery.ts";
import { end } from "./delivery.ts";

export async function sendSuspect<Tx>(
  delivery: Delivery<Tx>,
  send: () => Promise<DeliveryResult>,
): Promise<DeliveryResult> {
  const endTurn = delivery.all.suspects.take();
  if (endTurn === null) return waitForTurn(delivery);
  try {
    return await send();
  } finally {
    endTurn();
  }
}

async function waitForTurn<Tx>(delivery: Delivery<Tx>): Promise<DeliveryResult> {
  const { all, before } = delivery;
  const afterMs = all.suspects.nextTurnMs();
  const doubtful = before.doubtfulSince !== null;
  const errorCode = "waits-its-turn";
  const result = await end(
    delivery,
    { event: "retry", errorCode, afterMs, doubtful, returned: false },
    "given_back",
  );
  if (result === "given_back") all.suspects.waits(afterMs);
  return result;
}
