/** Module `latchkey-client/ky`: Ky on this client's `fetch`. */
import type { Client } from "./client.ts";

/**
 * Options for `ky.create` or `extend`. Requests that change something are retried by the client, which knows their keys; Ky
 * still retries the others. Ky gets no time-out: `attemptLimitMs` and `limitMs` of the client are the limits.
 */
export function kyOptions(client: Client): {
  readonly fetch: Client["fetch"];
  readonly timeout: false;
  readonly retry: { readonly methods: ("get" | "head" | "options" | "trace")[] };
} {
  return {
    fetch: client.fetch,
    timeout: false,
    retry: { methods: ["get", "head", "options", "trace"] },
  };
}

/** Names the intent of one request: `api.post("orders", { json: order, ...intent("form-1") })`. */
export function intent(name: string): { readonly intent: string } {
  return { intent: name };
}
