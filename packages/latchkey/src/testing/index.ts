/** A store that fails when your test says so. The suites for authors of stores and adapters are `latchkey-conformance`. */
export type { Fault, FaultPlan, StoreCall, StorePort } from "./faulty-store/fault.ts";
export { type FaultyStore, faultyStore } from "./faulty-store.ts";
