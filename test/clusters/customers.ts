/** Customers who submit key after key. */
import { setTimeout as pause } from "node:timers/promises";

/** Between two keys of one customer: several are under way at every moment, and the machine has time for the cluster. */
const paceMs = 5;

export interface Customers {
  /** Keys whose work was done in the eyes of the customer, oldest first. */
  readonly acknowledged: readonly string[];
  readonly refusals: readonly unknown[];
  /** How many keys were begun. */
  begun(): number;
  stop(): Promise<void>;
}

/** @param submit answers whether the work was done; refuses by rejecting */
export function customers(submit: (key: string) => Promise<boolean>, count = 4): Customers {
  const acknowledged: string[] = [];
  const refusals: unknown[] = [];
  let begun = 0;
  let open = true;
  const one = async () => {
    for (; open; await pause(paceMs)) {
      const key = `key ${++begun}`;
      try {
        if (await submit(key)) acknowledged.push(key);
      } catch (error) {
        refusals.push(error);
      }
    }
  };
  const all = Array.from({ length: count }, one);
  return {
    acknowledged,
    refusals,
    begun: () => begun,
    async stop() {
      open = false;
      await Promise.all(all);
    },
  };
}
