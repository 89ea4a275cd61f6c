/** Module `latchkey-client`: a `fetch` that sends one intent once. */
export {
  type Client,
  createClient,
  type IntentInit,
  type PendingIntent,
} from "./client.ts";
export { type ClientErrorCode, LatchkeyClientError } from "./errors.ts";
export type { IntentRecord } from "./intent.ts";
export { type Judgement, judge } from "./judge.ts";
export { newKey } from "./key.ts";
export type { ClientEvent, ClientOptions } from "./options.ts";
export type { Clock, Network, Ports, Random } from "./ports.ts";
export type { IntentStorage } from "./storage.ts";
export { indexedDbStorage } from "./storages/indexed-db.ts";
export { memoryStorage } from "./storages/memory.ts";
