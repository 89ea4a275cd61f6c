/** Module `latchkey-client/axios`: axios on this client's `fetch`. */
import type { Client } from "./client.ts";

/** Options for `axios.create`: its `fetch` adapter, on this client. Do not put axios-retry on top: it makes new intents. */
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
