/** The packed client in a real Chromium: reloads, tabs, storages, a network that goes and comes back. */
import { join } from "node:path";
import { build } from "esbuild";
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { repositoryRoot } from "../../scripts/support/repository.ts";
import { startChromium } from "../support/chromium.ts";
import { notRun } from "../support/not-run.ts";
import { patient } from "../support/patience.ts";
import { until } from "../support/until.ts";
import { installPackedClient } from "./pack-client.ts";
import { openShop, type Shop } from "./shop.ts";

const browser = await startChromium();
if (browser === null) notRun("the client in a browser", "no Chromium, nor apt to fetch it");

const contexts: BrowserContext[] = [];
const faults: string[] = [];
let script = "";

beforeAll(async () => {
  if (browser !== null) script = await bundlePage();
});
afterEach(async () => {
  for (const context of contexts.splice(0)) await context.close();
  expect(faults.splice(0)).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
});

/** `latchkey-client` is the packed one, not the sources beside it. */
async function bundlePage(): Promise<string> {
  const packed = join(installPackedClient(), "node_modules/latchkey-client/dist");
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, "page.ts")],
    bundle: true,
    format: "esm",
    target: "es2022",
    write: false,
    alias: {
      "latchkey-client": join(packed, "index.js"),
      "latchkey-client/tanstack-query": join(packed, "tanstack-query.js"),
      "latchkey-client/web-storage": join(packed, "storages/web-storage.js"),
    },
    nodePaths: [join(repositoryRoot, "node_modules")],
  });
  return outputFiles[0]?.text ?? "";
}

interface Tabs {
  readonly shop: Shop;
  readonly context: BrowserContext;
  open(): Promise<Page>;
}

/** A shop whose pages have the client, and a browser profile of its own. */
async function arrange({ hasLocks = true } = {}): Promise<Tabs> {
  if (browser === null) throw new Error("there is a browser");
  const html = '<!doctype html><title>Shop</title><script type="module" src="/page.js"></script>';
  const shop = await openShop("ietf", { pages: { "/": [html, "html"], "/page.js": [script, "js"] } });
  const context = await browser.newContext();
  contexts.push(context);
  context.setDefaultTimeout(patient(15_000));
  if (!hasLocks) {
    await context.addInitScript("Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })");
  }
  return {
    shop,
    context,
    async open() {
      const page = await context.newPage();
      page.on("pageerror", (error) => faults.push(error.message));
      await page.goto(shop.url);
      await page.waitForFunction("typeof shop === 'object'");
      return page;
    },
  };
}

const reloaded = async (page: Page) => {
  await page.reload();
  await page.waitForFunction("typeof shop === 'object'");
};

describe.runIf(browser !== null)("the client in Chromium", () => {
  test("IndexedDB and sessionStorage keep what a storage promises", async () => {
    const { open } = await arrange();
    const page = await open();
    await page.evaluate("shop.checkIndexedDb()");
    await page.evaluate("shop.checkSessionStorage()");
  });

  test("a reload in mid-flight: the stored request goes out again with its key, and there is one order", async () => {
    const { shop, open } = await arrange();
    const page = await open();
    const gate = shop.hold("book");
    await page.evaluate("void shop.order('book', 'form-1').catch(() => {})");
    await until(() => shop.keys.length === 1);
    await reloaded(page);
    expect(await page.evaluate("shop.pending()")).toMatchObject([{ intent: "form-1", isResumable: true }]);
    const resumed = page.evaluate("shop.resume('form-1')");
    await until(() => shop.keys.length >= 2);
    gate.resolve();
    expect(await resumed).toMatchObject({ status: 201, body: { item: "book" } });
    expect(shop.orders()).toEqual(["book"]);
    expect(new Set(shop.keys).size).toBe(1);
    expect(await page.evaluate("shop.pending()")).toEqual([]);
  });

  test("a reload after the answer: the same intent gets the same answer, with the same key", async () => {
    const { shop, open } = await arrange();
    const page = await open();
    const first = await page.evaluate<{ body: unknown }>("shop.order('book', 'form-1')");
    await reloaded(page);
    const again = await page.evaluate("shop.order('book', 'form-1')");
    expect(again).toMatchObject({ replayed: "true", body: first.body });
    expect(new Set(shop.keys).size).toBe(1);
  });

  test("two tabs at once: one request under way, one order, the same answer in both", async () => {
    const { shop, open } = await arrange();
    const pages = await Promise.all([open(), open()]);
    const gate = shop.hold("book");
    const answers = pages.map((page) => page.evaluate<{ body: unknown }>("shop.order('book', 'form-1')"));
    const waiting =
      "navigator.locks.query().then(({ held, pending }) => held.length === 1 && pending.length === 1)";
    await until(() => pages[0]?.evaluate<boolean>(waiting));
    await until(() => shop.keys.length === 1);
    gate.resolve();
    const [first, second] = await Promise.all(answers);
    expect(first?.body).toEqual(second?.body);
    expect(shop.orders()).toEqual(["book"]);
    // A second request while the first ran would have met 409 and come a third time.
    expect([shop.keys.length, new Set(shop.keys).size]).toEqual([2, 1]);
  });

  test("the same without Web Locks, and a tab that is closed leaves the other free", async () => {
    const { shop, open } = await arrange({ hasLocks: false });
    const pages = await Promise.all([open(), open()]);
    const gate = shop.hold("book");
    const answers = pages.map((page) => page.evaluate<{ body: unknown }>("shop.order('book', 'form-1')"));
    await until(() => shop.keys.length === 1);
    gate.resolve();
    const [first, second] = await Promise.all(answers);
    expect(first?.body).toEqual(second?.body);
    expect(shop.orders()).toEqual(["book"]);
    expect([shop.keys.length, new Set(shop.keys).size]).toEqual([2, 1]);
  });

  test.each([true, false])(
    "a tab that is closed in mid-flight leaves the other free (Web Locks: %s)",
    async (hasLocks) => {
      const { shop, open } = await arrange({ hasLocks });
      const [dying, other] = await Promise.all([open(), open()]);
      const gate = shop.hold("book");
      await dying.evaluate("void shop.order('book', 'form-1').catch(() => {})");
      await until(() => shop.keys.length === 1);
      await dying.close();
      const answer = other.evaluate("shop.order('book', 'form-1')");
      await until(() => shop.keys.length >= 2);
      gate.resolve();
      expect(await answer).toMatchObject({ status: 201 });
      expect(shop.orders()).toEqual(["book"]);
      expect(new Set(shop.keys).size).toBe(1);
    },
  );

  test("without a network it waits, and goes on when there is one", async () => {
    const { shop, open, context } = await arrange();
    const page = await open();
    await context.setOffline(true);
    const answer = page.evaluate("shop.order('book', 'form-1')");
    await until(() => page.evaluate<boolean>("shop.events.some(({ reason }) => reason === 'offline')"));
    expect(shop.keys).toEqual([]);
    await context.setOffline(false);
    expect(await answer).toMatchObject({ status: 201 });
    expect(shop.orders()).toEqual(["book"]);
    const attempts = "shop.events.filter(({ type }) => type === 'sent').length";
    expect(await page.evaluate(attempts)).toBe(2);
  });

  test("a mutation of TanStack Query that was in flight is resumed once after a reload", async () => {
    const { shop, open } = await arrange();
    const page = await open();
    const gate = shop.hold("book");
    await page.evaluate("globalThis.queries = shop.openQueries(); queries.restored.then(() => {})");
    await page.evaluate("void queries.mutate('book').catch(() => {})");
    await until(() => shop.keys.length === 1);
    await until(() =>
      page.evaluate<boolean>("Object.values(localStorage).join().includes('latchkeyIntent')"),
    );
    await reloaded(page);
    await page.evaluate("globalThis.queries = shop.openQueries(); queries.restored.then(() => {})");
    expect(await page.evaluate("queries.states()")).toEqual(["pending"]);
    const resumed = page.evaluate(
      "Promise.all([queries.resume(), queries.resume()]).then(() => queries.states())",
    );
    await until(() => shop.keys.length >= 2);
    gate.resolve();
    expect(await resumed).toEqual(["success"]);
    expect(shop.orders()).toEqual(["book"]);
    expect(new Set(shop.keys).size).toBe(1);
  });
});
