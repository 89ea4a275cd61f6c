/**
 * For a service's own tests: routes that were forgotten, and a store that fails when your test says so. The suites for authors
 * of stores and adapters are `latchkey-conformance`.
 */
export { expectEveryRouteProtected, type ProtectedRoutesOptions } from "./expect-protected.ts";
export type { Fault, FaultPlan, StoreCall, StorePort } from "./faulty-store/fault.ts";
export { type FaultyStore, faultyStore } from "./faulty-store.ts";
