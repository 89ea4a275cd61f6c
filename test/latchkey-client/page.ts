/** What the pages of browser.all.test.ts load: the client, and what its tests call in the page. */
import { MutationObserver, QueryClient } from "@tanstack/query-core";
import { persistQueryClientRestore, persistQueryClientSubscribe } from "@tanstack/query-persist-client-core";
import { createSyncStoragePersister } from "@tanstack/query-sync-storage-persister";
import { type ClientEvent, createClient, indexedDbStorage } from "latchkey-client";
import { idempotentMutation, isPendingMutation, resumeMutations } from "latchkey-client/tanstack-query";
import { webStorage } from "latchkey-client/web-storage";
import { checkStorage } from "../support/check-client-storage.ts";

const events: ClientEvent[] = [];
const client = createClient({ pauseMs: 50, onEvent: (event) => events.push(event) });

const orderOf = (item: string) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ item }),
});

/** What this page wrote down of an answer. */
async function shown(response: Response) {
  return {
    status: response.status,
    replayed: response.headers.get("idempotent-replayed"),
    body: await response.json(),
  };
}

function openQueries() {
  const queryClient = new QueryClient();
  const persister = createSyncStoragePersister({
    storage: Reflect.get(globalThis, "localStorage"),
    throttleTime: 0,
  });
  const persisted = {
    queryClient,
    persister,
    dehydrateOptions: { shouldDehydrateMutation: isPendingMutation },
  };
  const options = idempotentMutation(client, {
    mutationKey: ["orders.create"],
    mutationFn: async (item: string, { fetch }) => (await fetch("/orders", orderOf(item))).json(),
  });
  queryClient.setMutationDefaults(options.mutationKey, options);
  const restored = persistQueryClientRestore(persisted).then(() => persistQueryClientSubscribe(persisted));
  return {
    restored,
    mutate: (item: string) =>
      new MutationObserver<unknown, Error, string>(queryClient, { mutationKey: options.mutationKey }).mutate(
        item,
      ),
    resume: () => resumeMutations(queryClient),
    states: () =>
      queryClient
        .getMutationCache()
        .getAll()
        .map(({ state }) => state.status),
  };
}

const page = {
  events,
  order: async (item: string, intent: string) =>
    shown(await client.fetch("/orders", { ...orderOf(item), intent })),
  resume: async (intent: string) => shown(await client.resume(intent)),
  pending: () => client.pending(),
  checkIndexedDb: () => checkStorage(indexedDbStorage("checked")),
  checkSessionStorage: () => checkStorage(webStorage(Reflect.get(globalThis, "sessionStorage")), 1),
  openQueries,
};
export type TestPage = typeof page;
Object.assign(globalThis, { shop: page });
