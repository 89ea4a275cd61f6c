/**
 * For a service's own tests: a check for unprotected routes, and a store that fails when your test makes it fail. The suites
 * for authors of stores and adapters are in `latchkey-conformance`.
 */
export { expectEveryRouteProtected, type ProtectedRoutesOptions } from "./expect-protected.ts";
export type { Fault, FaultPlan, StoreCall, StorePort } from "./faulty-store/fault.ts";
export { type FaultyStore, faultyStore } from "./faulty-store.ts";
