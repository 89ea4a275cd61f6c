/**
 * Module `latchkey-conformance`: the suites for authors of stores, transaction bridges, HTTP adapters and broker adapters.
 */
export type {
  BrokerCapabilities,
  BrokerInput,
  BrokerUnderTest,
  ConsumeOptions,
  ConsumerUnderTest,
  PublishedMessage,
} from "./broker-conformance/case.ts";
export { type BrokerConformanceOptions, brokerConformance } from "./broker-conformance.ts";
export type { AppUnderTest, HandlerAnswer, HeaderLookup, ProtectedRoute } from "./http-conformance/case.ts";
export { type HttpConformanceOptions, httpConformance } from "./http-conformance.ts";
export type { BusinessPort, StoreUnderTest } from "./store-conformance/case.ts";
export { type StoreConformanceOptions, storeConformance } from "./store-conformance.ts";
export type { BridgeCapabilities, BridgeUnderTest } from "./transaction-conformance/case.ts";
export { type TransactionConformanceOptions, transactionConformance } from "./transaction-conformance.ts";
