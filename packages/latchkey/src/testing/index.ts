/** What a store's author and a user's own tests need from Latchkey. */
export type { Fault, FaultPlan, StoreCall, StorePort } from "./faulty-store/fault.ts";
export { type FaultyStore, faultyStore } from "./faulty-store.ts";
export type { AppUnderTest, HandlerAnswer, HeaderLookup, ProtectedRoute } from "./http-conformance/case.ts";
export { type HttpConformanceOptions, httpConformance } from "./http-conformance.ts";
export type { BusinessPort, StoreUnderTest } from "./store-conformance/case.ts";
export { type StoreConformanceOptions, storeConformance } from "./store-conformance.ts";
