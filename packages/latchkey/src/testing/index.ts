/** What a store's author and a user's own tests need from Latchkey. */

export type { BusinessPort, StoreUnderTest } from "./store-conformance/case.ts";
export { type StoreConformanceOptions, storeConformance } from "./store-conformance.ts";
