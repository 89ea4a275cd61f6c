/** The site of the documents, built and looked at in Chromium, below a path of its own and without a network. */
import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildSite } from "../../scripts/check-site.ts";
import { repositoryRoot } from "../../scripts/support/repository.ts";
import { listPages, placeOf } from "../../site/.vitepress/pages.ts";
import { startChromium } from "../support/chromium.ts";
import { type Listening, listen } from "../support/listen.ts";
import { notRun } from "../support/not-run.ts";
import { scratchDirectory } from "../support/scratch.ts";

const types = new Map([
  [".html", "text/html"],
  [".js", "text/javascript"],
  [".css", "text/css"],
  [".svg", "image/svg+xml"],
]);

let browser: Browser | null = null;
let server: Listening | undefined;
/** Requests that went elsewhere, and what the pages' scripts complained about. */
const complaints: string[] = [];

beforeAll(async () => {
  browser = await startChromium();
  if (browser === null) {
    notRun("the site in a browser", "no chromium, and no Debian packages to be had");
    return;
  }
  const folder = scratchDirectory("us");
  buildSite(folder);
  server = await listen((request, response) => {
    const path = join(
      folder,
      (request.url ?? "").replace(/^\/below\/[^?]*$/, (url) => url.slice("/below".length)),
    );
    if (!request.url?.startsWith("/below/") || !existsSync(path)) return response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": types.get(extname(path)) ?? "application/octet-stream" });
    return response.end(readFileSync(path));
  });
});

afterAll(async () => {
  await browser?.close();
  await server?.close();
});

interface Look {
  readonly colorScheme?: "light" | "dark";
  readonly width?: number;
}

async function open(chromium: Browser, path: string, look: Look = {}): Promise<Page> {
  const { colorScheme = "light", width = 1440 } = look;
  const page = await chromium.newPage({ colorScheme, viewport: { width, height: 900 } });
  page.on("pageerror", ({ message }) => complaints.push(`${path}: ${message}`));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(`${path}: ${message.text()}`);
  });
  page.on("request", (request) => {
    const isOwn = request.url().startsWith(`${server?.url}/below/`) || /^(data|blob):/.test(request.url());
    if (!isOwn) complaints.push(`${path} loads ${request.url()}`);
  });
  await page.goto(`${server?.url}/below/${path}`);
  return page;
}

/** Every page with a diagram. */
const drawn = listPages()
  .filter((path) => readFileSync(join(repositoryRoot, path), "utf8").includes("```mermaid"))
  .map((path) => placeOf(path).replace(/\.md$/, ".html"));

test.each(["light", "dark"] as const)("diagrams are drawn, %s", async (colorScheme) => {
  if (browser === null) return;
  for (const path of drawn) {
    const page = await open(browser, path, { colorScheme });
    const sources = await page.locator(".diagram").count();
    expect(sources, path).toBeGreaterThan(0);
    await page
      .locator(".diagram svg")
      .nth(sources - 1)
      .waitFor();
    expect(await page.locator(".diagram").allInnerTexts()).not.toContain(
      expect.stringMatching(/syntax error/i),
    );
    await page.close();
  }
  expect(complaints).toEqual([]);
});

test("search finds a page and leads to it", async () => {
  if (browser === null) return;
  const page = await open(browser, "adapters/koa.html");
  await page.getByRole("button", { name: "Search" }).click();
  await page.locator("#localsearch-input").fill("rabbitmq");
  await page.locator(".VPLocalSearchBox .result", { hasText: "Messages" }).first().click();
  await page.waitForURL(/\/below\/messages\.html/);
  expect(await page.locator("h1").textContent()).toContain("Messages");
  expect(complaints).toEqual([]);
});

test("no page is wider than a phone, and none complains", async () => {
  if (browser === null) return;
  const wide: string[] = [];
  for (const path of listPages().map((path) => placeOf(path).replace(/\.md$/, ".html"))) {
    const page = await open(browser, path, { width: 360 });
    if (await page.evaluate("document.documentElement.scrollWidth > innerWidth")) wide.push(path);
    await page.close();
  }
  expect(wide).toEqual([]);
  expect(complaints).toEqual([]);
});
