/** Deliveries that a test ends one by one, and worlds with several deliveries to make. */
import { type DeliveryWorld, deliveryWorld, type ProcessOptions } from "./delivery-world.ts";

/** Sends that end when the test says so. */
export function gated(world: DeliveryWorld, options: ProcessOptions = {}) {
  const waiting: { readonly amount: number; readonly end: () => void }[] = [];
  const execute = async ({ amount }: { readonly amount: number }, { key }: { readonly key: string }) => {
    await new Promise<void>((resolve) => waiting.push({ amount, end: resolve }));
    return world.ledger.charge(key, { amount });
  };
  const limits = { timeoutMs: 60_000, ...options.effect?.limits };
  const process = world.start({ ...options, effect: { ...options.effect, execute, limits } });
  const endNext = async () => {
    waiting.shift()?.end();
    await world.ports.clock.advance(0);
  };
  return { ...process, waiting, endNext };
}

export async function several(kind: Parameters<typeof deliveryWorld>[0], count: number) {
  const world = deliveryWorld(kind);
  for (let amount = 1; amount <= count; amount++) await world.enqueue(amount);
  return world;
}
