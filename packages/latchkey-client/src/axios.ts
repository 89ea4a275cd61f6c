/** Module `latchkey-client/axios`: axios on this client's `fetch`. */
import type { Client } from "./client.ts";

/**
 * Options for `axios.create`: a `fetch` adapter that uses this client. Do not add axios-retry: it would create new intents.
 */
export function axiosOptions(client: Client): {
  readonly adapter: "fetch";
  readonly env: { readonly fetch: Client["fetch"] };
} {
  return { adapter: "fetch", env: { fetch: client.fetch } };
}

/** Names the intent of one request: `api.post("/orders", order, intent("form-1"))`. */
export function intent(name: string): { readonly fetchOptions: { readonly intent: string } } {
  return { fetchOptions: { intent: name } };
}
