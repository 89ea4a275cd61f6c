/** axios, Ky and TanStack Query on the client, against a real Latchkey server whose answers get lost. */
import { MutationObserver, QueryClient } from "@tanstack/query-core";
import { persistQueryClientRestore, persistQueryClientSave } from "@tanstack/query-persist-client-core";
import { createSyncStoragePersister } from "@tanstack/query-sync-storage-persister";
import axios from "axios";
import ky from "ky";
import { describe, expect, test } from "vitest";
import { intent as axiosIntent, axiosOptions } from "../../packages/latchkey-client/src/axios.ts";
import { type Client, createClient } from "../../packages/latchkey-client/src/client.ts";
import { intent as kyIntent, kyOptions } from "../../packages/latchkey-client/src/ky.ts";
import { memoryStorage } from "../../packages/latchkey-client/src/storages/memory.ts";
import {
  idempotentMutation,
  isPendingMutation,
  resumeMutations,
} from "../../packages/latchkey-client/src/tanstack-query.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { openShop } from "./shop.ts";

async function arrange() {
  const shop = await openShop("ietf");
  const proxy = await startProxy({ to: { port: shop.port }, protocol: "bytes" });
  const storage = memoryStorage();
  const page = () => createClient({ storage, pauseMs: 20 });
  return { shop, proxy, storage, page, url: `http://127.0.0.1:${proxy.port}` };
}

/** The next answer is lost after the order was committed. */
async function loseAnswer({ proxy, shop }: Awaited<ReturnType<typeof arrange>>, count = 1) {
  const answer = proxy.holdReplyWhen(() => true);
  await answer.held();
  expect(shop.orders()).toHaveLength(count);
  answer.drop();
}

describe("axios", () => {
  test("a lost answer is asked for again, and a second call under the intent gets the same", async () => {
    const world = await arrange();
    const api = axios.create({ ...axiosOptions(world.page()), baseURL: world.url });
    const post = () =>
      api.post<{ id: string; item: string }>("/orders", { item: "book" }, axiosIntent("form-1"));
    const first = post();
    await loseAnswer(world);
    const { status, data } = await first;
    expect([status, data.item]).toEqual([201, "book"]);
    const again = await post();
    expect([again.data, again.headers["idempotent-replayed"]]).toEqual([data, "true"]);
    expect(world.shop.orders()).toEqual(["book"]);
    expect([world.shop.keys.length, new Set(world.shop.keys).size]).toEqual([3, 1]);
  });

  test("without an answer its error has the client's code, and an answer that is no success is its usual error", async () => {
    const world = await arrange();
    const api = axios.create({ ...axiosOptions(createClient({ attempts: 1 })), baseURL: world.url });
    const lost = api.post("/orders", { item: "book" });
    const failure = expect(lost).rejects.toMatchObject({
      code: "no-answer",
      cause: { name: "LatchkeyClientError" },
    });
    await loseAnswer(world);
    await failure;
    await expect(api.post("/orders", { item: "declined" })).rejects.toMatchObject({
      name: "AxiosError",
      response: { status: 402, data: { message: "declined" } },
    });
    expect((await api.get("/operations/none", { validateStatus: null })).status).toBe(404);
  });
});

describe("Ky", () => {
  test("a lost answer is asked for again, and a second call under the intent gets the same", async () => {
    const world = await arrange();
    const api = ky.create({ ...kyOptions(world.page()), prefix: world.url });
    const post = () => api.post("orders", { json: { item: "book" }, ...kyIntent("form-1") });
    const first = post().json();
    await loseAnswer(world);
    const order = await first;
    expect(order).toMatchObject({ item: "book" });
    const again = await post();
    expect([await again.json(), again.headers.get("idempotent-replayed")]).toEqual([order, "true"]);
    expect([world.shop.keys.length, new Set(world.shop.keys).size]).toEqual([3, 1]);
  });

  test("an answer that is no success is its usual error, and Ky itself sends no POST and no PUT again", async () => {
    const world = await arrange();
    const api = ky.create({ ...kyOptions(createClient({ attempts: 1 })), prefix: world.url });
    await expect(api.post("orders", { json: { item: "declined" } })).rejects.toMatchObject({
      name: "HTTPError",
      response: { status: 402 },
    });
    await world.proxy.cut();
    await expect(api.put("orders", { json: {} })).rejects.toThrow();
    expect(world.proxy.counts().connections).toBe(1);
  });
});

describe("TanStack Query", () => {
  type World = Awaited<ReturnType<typeof arrange>>;

  /** A page: a query client with the mutation's defaults, which restores what was persisted. */
  async function openPage(world: World, kept: Map<string, string>, client: Client = world.page()) {
    const queryClient = new QueryClient();
    const persister = createSyncStoragePersister({
      storage: {
        getItem: (name) => kept.get(name) ?? null,
        setItem: (name, value) => void kept.set(name, value),
        removeItem: (name) => void kept.delete(name),
      },
      throttleTime: 0,
    });
    const persisted = {
      queryClient,
      persister,
      dehydrateOptions: { shouldDehydrateMutation: isPendingMutation },
    };
    const options = idempotentMutation(client, {
      mutationKey: ["orders.create"],
      mutationFn: async ({ item }: { item: string }, { fetch }) => {
        const response = await fetch(`${world.url}/orders`, {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify({ item }),
        });
        if (!response.ok) throw new Error(`answered ${response.status}`);
        return (await response.json()) as { id: string; item: string };
      },
      onMutate: ({ item }) => ({ optimistic: item }),
    });
    queryClient.setMutationDefaults(options.mutationKey, options);
    await persistQueryClientRestore(persisted);
    return {
      queryClient,
      mutate: (item: string) =>
        new MutationObserver<{ id: string; item: string }, Error, { item: string }>(queryClient, {
          mutationKey: options.mutationKey,
        }).mutate({ item }),
      async save() {
        await persistQueryClientSave(persisted);
        await until(() => [...kept.values()].join().includes('"status":"pending"'));
      },
      states: () =>
        queryClient
          .getMutationCache()
          .getAll()
          .map(({ state }) => [state.status, state.context]),
    };
  }

  test("a lost answer is asked for again, and `onMutate` keeps what it returned", async () => {
    const world = await arrange();
    const page = await openPage(world, new Map());
    const mutation = page.mutate("book");
    await loseAnswer(world);
    expect(await mutation).toMatchObject({ item: "book" });
    expect(page.states()).toEqual([
      ["success", { optimistic: "book", latchkeyIntent: expect.stringMatching(/^mutation:0/u) }],
    ]);
    expect(new Set(world.shop.keys).size).toBe(1);
  });

  test("each mutation is its own intent, also with the same variables at once", async () => {
    const world = await arrange();
    const page = await openPage(world, new Map());
    await Promise.all([page.mutate("pen"), page.mutate("pen"), page.mutate("pen")]);
    expect(world.shop.orders()).toEqual(["pen", "pen", "pen"]);
    expect(new Set(world.shop.keys).size).toBe(3);
  });

  test("what was in flight is resumed once after a reload, however often it is asked for, in two pages at once", async () => {
    const world = await arrange();
    const kept = new Map<string, string>();
    const gate = world.shop.hold("book");
    const before = await openPage(world, kept, createClient({ storage: world.storage, attempts: 1 }));
    const lost = before.mutate("book");
    void lost.catch(() => {});
    await until(() => world.shop.keys.length === 1);
    await before.save();
    world.proxy.reset();
    gate.resolve();
    await until(() => world.shop.orders().length === 1);

    const pages = await Promise.all([openPage(world, kept), openPage(world, kept)]);
    const [page] = pages;
    expect(pages.flatMap(({ states }) => states())).toMatchObject([
      ["pending", {}],
      ["pending", {}],
    ]);
    await Promise.all([
      ...pages.map(({ queryClient }) => resumeMutations(queryClient)),
      page.queryClient.resumePausedMutations(),
      resumeMutations(page.queryClient),
    ]);
    expect(pages.flatMap(({ states }) => states().map(([status]) => status))).toEqual(["success", "success"]);
    expect(world.shop.orders()).toEqual(["book"]);
    expect(new Set(world.shop.keys).size).toBe(1);
  });

  test("a success that was not persisted any more is not made again either", async () => {
    const world = await arrange();
    const kept = new Map<string, string>();
    const gate = world.shop.hold("book");
    const before = await openPage(world, kept);
    const mutation = before.mutate("book");
    await until(() => world.shop.keys.length === 1);
    await before.save();
    gate.resolve();
    await mutation;
    const after = await openPage(world, kept);
    await resumeMutations(after.queryClient);
    expect(after.states()).toMatchObject([["success", {}]]);
    expect(world.shop.orders()).toEqual(["book"]);
  });

  test("TanStack's own retries keep the intent", async () => {
    const world = await arrange();
    const queryClient = new QueryClient();
    const seen: string[] = [];
    const options = idempotentMutation(world.page(), {
      mutationKey: ["orders.create"],
      mutationFn: async (_: string, { intent }) => {
        seen.push(intent);
        if (seen.length === 1) throw new Error("not yet");
        return intent;
      },
    });
    const observer = new MutationObserver<string, Error, string>(queryClient, {
      ...options,
      retry: 1,
      retryDelay: 0,
    });
    await observer.mutate("book");
    expect([seen.length, new Set(seen).size]).toEqual([2, 1]);
  });

  test("an `onMutate` laid over ours is refused, and nothing is sent", async () => {
    const world = await arrange();
    const queryClient = new QueryClient();
    const options = idempotentMutation(world.page(), { mutationKey: ["a"], mutationFn: async () => "sent" });
    const over = new MutationObserver<string, Error, string>(queryClient, {
      ...options,
      onMutate: () => undefined,
    });
    await expect(over.mutate("book")).rejects.toThrow("The mutation has no intent");
  });
});
