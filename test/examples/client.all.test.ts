/** The example of the client package, as a user has it: an order, and a reload in the middle of it. */
import { afterAll, describe, expect, test } from "vitest";
import { startChromium } from "../support/chromium.ts";
import { notRun } from "../support/not-run.ts";
import { patient } from "../support/patience.ts";
import { spawnWorker } from "../support/processes.ts";

const browser = await startChromium();
if (browser === null) notRun("the client's example in a browser", "no Chromium, nor apt to fetch it");
afterAll(() => browser?.close());

describe.runIf(browser !== null)("examples/client", () => {
  test("an order that a reload interrupts is placed once, and the page says so", async () => {
    if (browser === null) throw new Error("there is a browser");
    const script = new URL("../../examples/client/server.ts", import.meta.url);
    const server = spawnWorker(script, { env: { PORT: "0", SLOW_MS: "1500" } });
    const { text } = await server.line((line) => String(line.text).startsWith("http"));
    const url = String(text);
    const page = await browser.newPage();
    page.setDefaultTimeout(patient(20_000));
    await page.goto(url);
    await page.getByRole("button", { name: "Order" }).click();
    await server.line((line) => String(line.text).includes("has started"));
    await page.reload();
    await page.getByText("Your book is ordered.").waitFor();
    expect(await (await fetch(`${url}/orders`)).json()).toMatchObject([{ item: "book" }]);
    // The next one is a new intent.
    await page.getByRole("button", { name: "Order" }).click();
    await page.getByText("Ordering …").waitFor();
    await page.getByText("Your book is ordered.").waitFor();
    expect(await (await fetch(`${url}/orders`)).json()).toHaveLength(2);
    await page.close();
    await server.stop();
  });
});
