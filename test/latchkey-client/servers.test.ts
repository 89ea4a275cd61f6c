/** The client against real Latchkey servers, over connections that are cut: one effect and one key, whatever happens. */
import { describe, expect, test } from "vitest";
import { createClient } from "../../packages/latchkey-client/src/client.ts";
import type { ClientEvent, ClientOptions } from "../../packages/latchkey-client/src/options.ts";
import { memoryStorage } from "../../packages/latchkey-client/src/storages/memory.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { openShop, type ShopKind, type ShopOptions } from "./shop.ts";

const kinds = ["ietf", "stripe", "strict"] as const satisfies readonly ShopKind[];

/** A shop behind a proxy, and a client that goes through it. */
async function arrange(kind: ShopKind, shopOptions: ShopOptions = {}, clientOptions: ClientOptions = {}) {
  const shop = await openShop(kind, shopOptions);
  const proxy = await startProxy({ to: { port: shop.port }, protocol: "bytes" });
  const storage = memoryStorage();
  const events: ClientEvent[] = [];
  const options: ClientOptions = {
    storage,
    // As short as to keep the tests short; nothing here measures them.
    pauseMs: 20,
    keySyntax: kind === "strict" ? "quoted" : "bare",
    onEvent: (event) => events.push(event),
    ...clientOptions,
  };
  const order = (item: string) => ({
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ item }),
  });
  return {
    shop,
    proxy,
    events,
    order,
    client: createClient(options),
    /** As after a reload: another client on the same storage. */
    reloaded: () => createClient(options),
    through: (path: string) => `http://127.0.0.1:${proxy.port}${path}`,
  };
}

describe.each(kinds)("a server of the kind %s", (kind) => {
  test("an answer that is lost after the commit is asked for again: one order, one key", async () => {
    const { shop, proxy, client, order, through } = await arrange(kind);
    const answer = proxy.holdReplyWhen(() => true);
    const response = client.fetch(through("/orders"), { ...order("book"), intent: "form-1" });
    await answer.held();
    expect(shop.orders()).toEqual(["book"]);
    answer.drop();
    expect([(await response).status, (await response).headers.get("idempotent-replayed")]).toEqual([
      201,
      "true",
    ]);
    expect(shop.orders()).toEqual(["book"]);
    expect([shop.keys.length, new Set(shop.keys).size]).toEqual([2, 1]);
    expect(await client.pending()).toEqual([]);
  });

  test("a request that is cut off is sent again", async () => {
    const { shop, proxy, client, order, through } = await arrange(kind);
    // More than one read from a socket takes, and less than the limits for a body.
    const item = "x".repeat(90_000);
    const rest = proxy.holdWhen(({ bytes }) => !bytes.subarray(0, 4).equals(Buffer.from("POST")));
    const response = client.fetch(through("/orders"), order(item));
    await rest.held();
    rest.drop();
    expect((await response).status).toBe(201);
    expect(shop.orders()).toEqual([item]);
    expect(new Set(shop.keys).size).toBe(1);
  });

  test("while the first attempt still runs, the next ones wait for its answer", async () => {
    const { shop, proxy, client, order, through, events } = await arrange(kind, {}, { attempts: 50 });
    const gate = shop.hold("book");
    const response = client.fetch(through("/orders"), order("book"));
    await until(() => shop.keys.length === 1);
    proxy.reset();
    await until(() => events.filter(({ type }) => type === "waiting").length >= 2);
    expect(shop.orders()).toEqual([]);
    gate.resolve();
    expect((await response).status).toBe(201);
    expect(shop.orders()).toEqual(["book"]);
    expect(new Set(shop.keys).size).toBe(1);
  });

  test("after a reload the stored request goes out with its key", async () => {
    const { shop, proxy, client, reloaded, order, through } = await arrange(kind, {}, { attempts: 1 });
    const answer = proxy.holdReplyWhen(() => true);
    const lost = client.fetch(through("/orders"), { ...order("book"), intent: "form-1" });
    await answer.held();
    answer.drop();
    await expect(lost).rejects.toMatchObject({ code: "no-answer", intent: "form-1" });
    const after = reloaded();
    expect(await after.pending()).toMatchObject([{ intent: "form-1", isResumable: true }]);
    expect(await (await after.resume("form-1")).json()).toMatchObject({ item: "book" });
    expect(shop.orders()).toEqual(["book"]);
    expect(new Set(shop.keys).size).toBe(1);
  });

  test("work that is accepted is followed to its answer", async () => {
    const { shop, client, through, events } = await arrange(kind);
    const month = {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: '{"month":"2026-11"}',
    };
    const response = client.fetch(through("/reports"), { ...month, intent: "report" });
    await until(() => events.some((event) => event.type === "waiting" && event.reason === "accepted"));
    shop.work();
    expect([(await response).status, await (await response).json()]).toEqual([201, { month: "2026-11" }]);
    expect(shop.keys).toHaveLength(1);
  });

  test("a refusal frees the key, key misuse does not", async () => {
    const { shop, client, reloaded, order, through } = await arrange(kind);
    const declined = { ...order("declined"), intent: "form-1" };
    expect((await client.fetch(through("/orders"), declined)).status).toBe(402);
    expect((await client.fetch(through("/orders"), { ...order("book"), intent: "form-1" })).status).toBe(201);
    expect(new Set(shop.keys).size).toBe(2);
    const stolen = { ...order("pen"), intent: "form-2" };
    const headers = { ...stolen.headers, "Idempotency-Key": shop.keys[1] ?? "" };
    expect((await client.fetch(through("/orders"), { ...stolen, headers })).status).toBe(
      kind === "stripe" ? 400 : 422,
    );
    expect(await reloaded().pending()).toMatchObject([{ intent: "form-2" }]);
    expect(shop.orders()).toEqual(["book"]);
  });

  test("a store that is away for a moment is waited for", async () => {
    let calls = 0;
    const { shop, client, order, through } = await arrange(kind, {
      faults: () => (++calls === 1 ? "not_sent" : "proceed"),
    });
    expect((await client.fetch(through("/orders"), order("book"))).status).toBe(201);
    expect([shop.keys.length, new Set(shop.keys).size]).toEqual([2, 1]);
    expect(shop.orders()).toEqual(["book"]);
  });
});

test("a server that keeps to the draft refuses a bare key, and says that another is safe", async () => {
  const { client, order, through } = await arrange("strict", {}, { keySyntax: "bare" });
  const response = await client.fetch(through("/orders"), { ...order("book"), intent: "form-1" });
  expect([response.status, await response.json()]).toMatchObject([
    400,
    { code: "invalid-key", safe_new_key: true },
  ]);
  expect(await client.pending()).toEqual([]);
});
