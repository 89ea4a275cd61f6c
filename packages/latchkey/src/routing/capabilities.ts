/** The capabilities of several stores as one: those that all of them have. */
import type { Store, StoreCapabilities } from "../stores/store.ts";

const waits = ["immediate", "bounded", "at-commit"] as const;

/** @throws {TypeError} when some have transactions and others do not. */
export function capabilitiesOf(stores: readonly Store<never>[]): StoreCapabilities {
  const all = stores.map(({ capabilities }) => capabilities);
  const transactions = all.every((one) => one.transactions);
  if (!transactions && all.some((one) => one.transactions)) {
    throw new TypeError("routedStore: either all stores must have transactions, or none");
  }
  const slowest = Math.max(...all.map(({ inProgress }) => waits.indexOf(inProgress)));
  return {
    transactions,
    optimisticAdmission: all.every((one) => one.optimisticAdmission === true),
    inProgress: waits[slowest] ?? "at-commit",
    durability: all.every(({ durability }) => durability === "synced") ? "synced" : "may-lose-acknowledged",
    commitNotice: all.every(({ commitNotice }) => commitNotice),
    fenceSurvivesFailover: all.every(({ fenceSurvivesFailover }) => fenceSurvivesFailover),
    statusReads: "primary",
  };
}

/** @throws {TypeError} when a store that was added later lacks a capability that was declared for all. */
export function checkFits(store: Store<never>, declared: StoreCapabilities): void {
  const together = capabilitiesOf([{ ...store, capabilities: declared }, store]);
  for (const name of Object.keys(declared) as (keyof StoreCapabilities)[]) {
    if (together[name] !== (declared[name] ?? false)) {
      throw new TypeError(
        `routedStore: a store named ${store.name} has ${name} ${store.capabilities[name]}; the others have ${declared[name]}`,
      );
    }
  }
}
