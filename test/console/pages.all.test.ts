/** The console in a real Chromium: each page, each action, and what others put into keys, tenants and error codes. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import {
  bareDoubt,
  begin,
  bytes,
  callInDoubt,
  complete,
  endInDoubt,
  jsonAnswer,
  keyOf,
  ownerOf,
  sendCall,
} from "../cli/arrange.ts";
import { startChromium } from "../support/chromium.ts";
import { buildConsolePage } from "../support/console-page.ts";
import { notRun } from "../support/not-run.ts";
import { patient } from "../support/patience.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { until } from "../support/until.ts";
import {
  decideSome,
  fill,
  openWorld,
  rememberRequests,
  type ServedWorld,
  serve,
  spreadAges,
  token,
  type World,
} from "./arrange.ts";

const browser = await startChromium();
if (browser === null) notRun("the console's pages", "no Chromium, nor apt to fetch it");
/** Pictures differ with every run, so the documents' are written only when that is asked for. */
const documented =
  process.env.LATCHKEY_SCREENSHOTS === "1"
    ? ["overview-light", "overview-dark", "settle-light", "record-light", "tenant-light", "unknown-phone"]
    : [];
const documents = join(import.meta.dirname, "../../docs/images");
/** The others, to be looked at. */
const scratch = join(scratchDirectory("us"), "images");

/** What a page must not do, by context. */
const faults: string[] = [];
const contexts: BrowserContext[] = [];

interface Opened {
  readonly page: Page;
  go(path: string): Promise<void>;
}

const phone = { width: 390, height: 844 };
const desk = { width: 1_440, height: 900 };

async function open(
  { url }: ServedWorld,
  { operator = "ada", viewport = desk, colorScheme = "light" as "light" | "dark" } = {},
): Promise<Opened> {
  if (browser === null) throw new Error("there is a browser");
  const context = await browser.newContext({ viewport, colorScheme, reducedMotion: "reduce" });
  contexts.push(context);
  const page = await context.newPage();
  page.setDefaultTimeout(patient(15_000));
  page.on("pageerror", (error) => faults.push(`threw: ${error.message}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (line) => {
    if (/content security policy|trusted/iu.test(line.text())) faults.push(line.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:")) {
      faults.push(`asked ${request.url()}`);
    }
  });
  await page.goto(`${url}/#token=${encodeURIComponent(token)}`);
  await page.getByLabel("Your name").fill(operator);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText(`Signed in as ${operator}`).waitFor({ state: "attached" });
  return {
    page,
    async go(path) {
      await page.goto(`${url}${path}`);
      await page.locator("h1, .empty h2").first().waitFor();
    },
  };
}

async function isWithinWidth(page: Page): Promise<boolean> {
  return page.evaluate<boolean>("document.documentElement.scrollWidth <= window.innerWidth");
}

const rowsOf = (page: Page) => page.locator("tbody tr[id^=row-]");

beforeAll(() => {
  for (const folder of [documents, scratch]) mkdirSync(folder, { recursive: true });
});
afterEach(async () => {
  for (const context of contexts.splice(0)) await context.close();
  expect(faults.splice(0)).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
});

describe.runIf(browser !== null)("the console", () => {
  let world: World;
  let served: ServedWorld;
  beforeAll(async () => {
    await buildConsolePage();
    world = await openWorld();
    served = await serve(world);
  });
  afterAll(async () => {
    await served?.close();
    await world?.close();
  });

  test("without anything that waits, every page says so", async () => {
    const { page, go } = await open(served);
    await page.getByRole("heading", { name: "Nothing waits for a person" }).waitFor();
    for (const [path, title] of [
      ["/unknown", "No records are unknown"],
      ["/dead", "Nothing to decide"],
      ["/pending", "No records are pending"],
      ["/in-progress", "No records are in progress"],
      ["/retryable", "No records are retryable"],
      ["/no-such-page", "This page does not exist"],
    ] as const) {
      await go(path);
      await page.getByRole("heading", { name: title }).first().waitFor();
    }
  });

  test("signing in: a wrong token is refused in a sentence, and the token leaves the address", async () => {
    const { page } = await open(served);
    expect(new URL(page.url()).hash).toBe("");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Your name").fill("eve");
    await page.getByLabel("Token").fill("a guess of sixteen");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("Not signed in. The token is wrong.").waitFor();
  });

  describe("with things that wait", () => {
    beforeAll(() => fill(world));

    test("the overview says the verdict, and each figure leads to its page", async () => {
      const { page } = await open(served);
      await page
        .getByRole("heading", { name: "7 outcomes are unknown. 6 of them have the same cause." })
        .waitFor();
      await page.getByRole("link", { name: "Open the 6" }).click();
      await until(async () => (await rowsOf(page).count()) === 6);
      expect(new URL(page.url()).search).toContain("errorCode=call-in-doubt");
      await page.goBack();
      await page.locator(".strip").getByText("Dead letters").click();
      await page.getByRole("heading", { name: /^4 dead letters/u }).waitFor();
    });

    test("filters stay in the address, after a reload and after an action", async () => {
      const { page, go } = await open(served);
      await go("/unknown");
      await page.getByLabel("Tenant", { exact: true }).selectOption("acme");
      await until(async () => (await rowsOf(page).count()) === 3);
      await page.reload();
      await until(async () => (await rowsOf(page).count()) === 3);
      await page.getByRole("link", { name: "order-88211" }).click();
      await page.getByRole("radio", { name: /It did not happen/u }).check();
      await page.getByRole("radio", { name: /The other service has closed it/u }).check();
      const submit = page.getByRole("button", { name: "Settle: did not happen" });
      expect(await submit.isDisabled(), "a reason is needed").toBe(true);
      await page.getByLabel("Reason").fill("closed, ticket 1");
      await page.getByText("The call “charged” is made again, under a new key").waitFor();
      await submit.click();
      await page.getByRole("heading", { name: "The state now" }).waitFor();
      await until(async () => (await rowsOf(page).count()) === 2);
      expect(new URL(page.url()).search).toContain("tenant=acme");
      await page.getByRole("button", { name: "Remove the filter Tenant acme" }).click();
      await until(async () => (await rowsOf(page).count()) === 6);
    });

    test("the record shows what happened, who settled it, and masks what is stored", async () => {
      const { page, go } = await open(served);
      await go("/records");
      await page.getByLabel("Tenant").fill("acme");
      await page.getByLabel("Operation").fill("payments.charge");
      await page.getByLabel("Idempotency key").fill("order-88211");
      await page.getByRole("button", { name: "Look up" }).click();
      await page.getByRole("img", { name: /The life of order-88211/u }).waitFor();
      await page.getByText("“closed, ticket 1”").first().waitFor();
      await page.locator(".log").getByText("payment_recorded was committed.").waitFor();
      expect(await page.locator(".log").textContent()).not.toContain("500");
      expect(await page.locator(".masked").count()).toBeGreaterThan(0);
    });

    test("a tenant's page says what of it waits, leads there, and shows what was decided about it", async () => {
      const { page, go } = await open(served);
      await go("/unknown?tenant=globex");
      await page.getByRole("button", { name: "Remove the filter Tenant globex" }).click();
      await page.getByRole("link", { name: "acme" }).first().click();
      await page.getByRole("heading", { name: "acme", exact: true }).waitFor();
      await page.getByText("2 unknown outcomes and 3 dead letters wait for a person.").waitFor();
      const decided = page.getByRole("region", { name: "Last decisions" });
      await decided.getByText("“closed, ticket 1”").waitFor();
      await decided.getByText("Settled it: unknown → retryable.").waitFor();
      await page.getByText("latchkey delete-tenant acme --dry-run").waitFor();
      await page
        .getByRole("region", { name: "Waiting entries" })
        .getByRole("link", { name: "Dead letters" })
        .click();
      await page.getByRole("heading", { name: /^3 dead letters/u }).waitFor();
      expect(new URL(page.url()).search).toBe("?tenant=acme");
    });

    test("the audit log has the decisions of every tenant, newest first, and leads to their records", async () => {
      const { page } = await open(served, { operator: "grace" });
      await page.getByRole("link", { name: "Audit log" }).click();
      await page.getByRole("heading", { name: "Audit log", exact: true }).waitFor();
      const row = page.locator("tbody tr").filter({ hasText: "order-88211" });
      await row.getByText("“closed, ticket 1”").waitFor();
      await row.getByRole("link", { name: "acme" }).waitFor();
      await row.getByRole("link", { name: "order-88211" }).click();
      await page.getByRole("img", { name: /The life of order-88211/u }).waitFor();
    });

    test("two people settle the same one: the second reads who was faster", async () => {
      const [ada, bob] = [await open(served), await open(served, { operator: "bob" })];
      for (const { page, go } of [ada, bob]) {
        await go("/unknown");
        await page.getByRole("link", { name: "order-88212" }).click();
        await page.getByRole("radio", { name: /The call “charged” happened/u }).check();
        await page.getByLabel("Its result, as JSON").fill('{"id": "ch_1"}');
        await page.getByLabel("Reason").fill("it is in the ledger");
      }
      await ada.page.getByRole("button", { name: "Settle: it happened" }).click();
      await ada.page.getByRole("heading", { name: "The state now" }).waitFor();
      // What bob's page has polled meanwhile may have taken the form away: he acts on what he saw.
      const press = bob.page.getByRole("button", { name: "Settle: it happened" });
      const isThere = await press.isVisible();
      if (isThere) {
        await press.click();
        await bob.page.getByRole("alert").getByText("Not settled. ada was faster.").waitFor();
      }
      await bob.page.getByRole("heading", { name: "The state now" }).waitFor();
    });

    test("an answer that is no JSON, or none, is reported before it is sent or in the refusal", async () => {
      const { page, go } = await open(served);
      await go("/unknown?errorCode=handler-threw");
      await page.getByRole("link", { name: "inv_2026_11_0410" }).click();
      await page.getByRole("radio", { name: /All of it happened/u }).check();
      await page.getByLabel("Reason").fill("looked at it");
      await page.getByLabel("The answer, as JSON").fill('{"status":');
      await page.getByText("The answer is not JSON yet.").waitFor();
      await page.getByLabel("The answer, as JSON").fill('{"status": 99}');
      await page.getByRole("button", { name: "Settle: all happened" }).click();
      await page.getByRole("alert").getByText("status must be between 200 and 599").waitFor();
      await page.getByLabel("The answer, as JSON").fill('{"status": 201, "body": {"id": 7}}');
      await page.getByRole("button", { name: "Settle: all happened" }).click();
      await page.getByRole("heading", { name: "The state now" }).waitFor();
    });

    test("all that match are settled at once: checked, the number typed, and a result for each", async () => {
      const { page, go } = await open(served);
      await go("/unknown?errorCode=call-in-doubt");
      await page.getByRole("button", { name: "Settle 4…" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("combobox").selectOption("word");
      await dialog.getByLabel("Reason").fill("the provider lost them");
      await dialog.getByRole("button", { name: "Check first" }).click();
      const go4 = dialog.getByRole("button", { name: "Settle 4", exact: true });
      await dialog.getByLabel("Type 4 to continue").fill("3");
      expect(await go4.isDisabled()).toBe(true);
      await dialog.getByLabel("Type 4 to continue").fill("4");
      await go4.click();
      await page.getByText("Done: 4 of 4, started by ada.").waitFor();
      await page
        .getByRole("heading", { name: /No (matching )?records are unknown/u })
        .first()
        .waitFor();
    });

    test("all that match are looked up again, and what is retryable is retried at once", async () => {
      const { page, go } = await open(served);
      const tenant = "retried-together";
      for (const name of ["one", "two"])
        await callInDoubt(world.place, keyOf(`${tenant}-${name}`, { tenant }));
      const change = (text: string) => world.place.pool.query(text, [tenant]);
      const actOn = async (button: string, reason: string) => {
        await page.getByRole("button", { name: `${button}…` }).click();
        const dialog = page.getByRole("dialog");
        await dialog.getByLabel("Reason").fill(reason);
        await dialog.getByRole("button", { name: "Check first" }).click();
        await dialog.getByLabel("Type 2 to continue").fill("2");
        await dialog.getByRole("button", { name: button, exact: true }).click();
        await page.getByText("Done: 2 of 2, started by ada.").first().waitFor();
      };
      await go(`/unknown?tenant=${tenant}`);
      await actOn("Look 2 up again", "their API is back");
      await page.getByText("due now").first().waitFor();
      await change(
        "update latchkey.records set state = 'retryable', reconcile_after = now() + interval '1 hour' where tenant = $1",
      );
      await go(`/retryable?tenant=${tenant}`);
      await actOn("Retry 2", "the queue is empty again");
      // The page still shows that the look-ups are done, too.
      await until(
        async () => {
          const { rows } = await change(
            "select count(*)::int as due from latchkey.records where tenant = $1 and reconcile_after <= now()",
          );
          return rows[0]?.due === 2;
        },
        { what: "both are due" },
      );
      await change("delete from latchkey.records where tenant = $1");
    });

    test("a dead letter is redriven, and a group discarded", async () => {
      const { page, go } = await open(served);
      await go("/dead");
      await page.getByRole("button", { name: /receipt.send.*call-in-doubt/su }).click();
      await page.getByRole("button", { name: "Decide", exact: true }).click();
      await page.getByRole("button", { name: "Redrive as never sent…" }).click();
      await page.getByLabel("Reason").last().fill("nothing arrived there");
      await page.getByRole("button", { name: "Redrive as never sent", exact: true }).click();
      await page.getByRole("heading", { name: /^3 dead letters/u }).waitFor();
      await page.getByRole("button", { name: "Discard…" }).first().click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Reason").fill("they wrote by hand");
      await dialog.getByRole("button", { name: "Check first" }).click();
      await dialog.getByLabel("Type 3 to continue").fill("3");
      await dialog.getByRole("button", { name: "Discard", exact: true }).click();
      await page.getByRole("heading", { name: "No dead letters" }).waitFor();
    });

    test("a record is looked up again, and a finished one forgotten, each with a reason", async () => {
      const { page, go } = await open(served);
      const { id } = await callInDoubt(world.place, keyOf("look-up-again", { tenant: "hastened" }));
      await go(`/record/${id}`);
      await page.getByRole("button", { name: "Look up again…" }).click();
      const lookUp = page.getByRole("button", { name: "Look up again", exact: true });
      expect(await lookUp.isDisabled(), "without a reason").toBe(true);
      await page.getByLabel("Reason").fill("their API is back");
      await lookUp.click();
      await page.getByText("retried it").waitFor();
      const key = keyOf("to-forget", { tenant: "hastened" });
      const record = await begin(world.place, key);
      await complete(world.place, ownerOf(key, record), jsonAnswer(201, {}));
      await go(`/record/${record.id}`);
      await page.getByRole("button", { name: "Forget…" }).click();
      await page.getByLabel("Reason").fill("undone by hand");
      const forget = page.getByRole("button", { name: "Forget", exact: true });
      expect(await forget.isDisabled(), "not confirmed").toBe(true);
      await page.getByLabel("it may run again").check();
      await forget.click();
      await page.getByText("forgot it: its key may run as new").waitFor();
      expect(await page.getByRole("button", { name: "Forget…" }).count()).toBe(0);
      await world.place.pool.query("delete from latchkey.records where tenant = 'hastened'");
    });

    test("keys do what they say", async () => {
      for (const n of [1, 2, 3]) await bareDoubt(world.place, keyOf(`keyboard-${n}`, { tenant: "keys" }));
      const { page, go } = await open(served);
      await go("/unknown?tenant=keys");
      await until(async () => (await rowsOf(page).count()) === 3);
      await page.keyboard.press("/");
      expect(await page.evaluate("document.activeElement?.id")).toBe("find");
      await page.keyboard.press("Escape");
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      await page.keyboard.press("k");
      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await page.locator("#h-panel").getByText("keyboard-2").waitFor();
      await page.locator(".choice").first().waitFor();
      await until(async () => (await page.evaluate("document.activeElement?.id")) === "h-panel");
      await page.keyboard.press("s");
      expect(await page.evaluate('document.activeElement?.getAttribute("name")')).toBe("outcome");
      await page.keyboard.press("Escape");
      await page.locator(".panel").waitFor({ state: "detached" });
      expect(await page.evaluate("document.activeElement?.id")).toMatch(/^row-/u);
    });
  });

  test("what others put into keys, tenants and codes is shown as text", async () => {
    const attacks = [
      '<img src=x onerror="alert(1)">',
      '"><script>alert(2)</script>',
      "javascript:alert(3)",
      "{{constructor.constructor('alert(4)')()}}",
      "\u202egnp.exe",
      "<svg/onload=alert(5)>'\"`",
    ];
    for (const [n, attack] of attacks.entries()) {
      const key = keyOf(attack, { tenant: `<b>${n}</b>` });
      const record = await begin(world.place, key, bytes({ [attack]: attack }));
      await sendCall(world.place, ownerOf(key, record), attack, bytes({ [attack]: attack }));
      await endInDoubt(world.place, ownerOf(key, record), attack);
    }
    await world.killEffect(attacks[0] ?? "", '<img src=x onerror="alert(7)">', "<i>dead</i>");
    const open2 = await serve(world, { redact: false });
    const { page, go } = await open(open2);
    for (const attack of attacks) {
      await go(`/unknown?errorCode=${encodeURIComponent(attack)}`);
      await page.getByRole("link", { name: attack, exact: true }).click();
      await page.locator(".choice").first().waitFor();
      await page.getByText("Whole record").click();
      await page.locator(".log").waitFor();
      expect(await page.locator("h1 .mono").textContent()).toBe(attack);
      expect(await page.locator("main img, main script, main b b, main i i").count()).toBe(0);
      await go(`/records?q=${encodeURIComponent(attack)}`);
      await page.getByText(`Nothing is stored under ${attack}`).waitFor();
    }
    await go("/dead");
    await page.locator(".fold").first().click();
    await page.getByText('<img src=x onerror="alert(7)">').first().waitFor();
    await go("/");
    await page.locator(".strip").waitFor();
    await open2.close();
  });

  test("a record shows what its request asked for, with its fields masked, and others' text as text", async () => {
    const { place } = world;
    const latchkey = createLatchkey({ store: place.store, summary: { fields: ["note"] } });
    const operation = latchkey.operation("payments.summed", { execution: "lease" });
    const key = keyOf("summed", { scope: "payments.summed" });
    const path = '/payments/<img src=x onerror="alert(8)">';
    await latchkey.execute(
      operation,
      {
        key,
        fingerprint: { version: 1, digest: new Uint8Array(32) },
        principal: null,
        summarize: () => ({ method: "POST", path, fields: { note: "NOTE-CANARY" } }),
      },
      async () => ({ status: 201, headers: [], body: bytes({}), omitted: null }),
    );
    const { record } = await place.store.read(key);
    const { page, go } = await open(await serve(world));
    await go(`/record/${record?.id}`);
    const section = page.locator("section", { hasText: "First request" });
    await section.getByText(`POST ${path}`).waitFor();
    expect(await section.locator("img").count()).toBe(0);
    expect(await section.textContent()).toContain("note");
    expect(await page.content()).not.toContain("NOTE-CANARY");
  });

  test("a record shows the requests that came again, with a gap where they are not kept one by one", async () => {
    const { place } = world;
    const latchkey = createLatchkey({ store: place.store });
    const operation = latchkey.operation("payments.again", { execution: "lease" });
    const run = () =>
      latchkey.run(operation, { tenant: "acme", key: "again", input: null }, async () => ({}));
    const first = await run();
    for (let count = 0; count < 45; count += 1) await run();
    await latchkey.runtime.facts?.stop();
    const { page, go } = await open(await serve(world), { viewport: phone });
    await go(`/record/${"recordId" in first ? first.recordId : ""}`);
    const section = page.locator("section", { hasText: "Repeated requests" });
    await section.getByText("45", { exact: true }).waitFor();
    await section.getByText("15 more, not stored individually").waitFor();
    const rows = await section.locator("tr").allTextContents();
    expect(rows).toHaveLength(3);
    expect(rows[0]).toContain("got the stored answer 10 times");
    expect(rows[1]).toContain("15 more");
    expect(rows[2]).toContain("got the stored answer 20 times");
    expect(await isWithinWidth(page)).toBe(true);
    await page.screenshot({ path: join(scratch, "console-again-phone.png"), fullPage: true });
  });

  test("a console that does not answer is reported, what was there stays, and it comes back by itself", async () => {
    const own = await serve(world);
    const { page, go } = await open(own);
    await go("/unknown");
    await until(async () => (await rowsOf(page).count()) > 0);
    await page.route("**/api/**", (route) => route.abort());
    await page.getByRole("alert").getByText("Not connected since").waitFor();
    expect(await rowsOf(page).count()).toBeGreaterThan(0);
    await page.unroute("**/api/**");
    await page.getByRole("alert").waitFor({ state: "detached" });
    await page.route("**/api/**", (route) =>
      route.fulfill({ status: 502, body: "<html>Bad gateway</html>" }),
    );
    await page.getByRole("alert").getByText("Not connected since").waitFor();
    await own.close();
  });

  test("who may only look sees no button that does something", async () => {
    const shut = await serve(world, { readOnly: true });
    const { page, go } = await open(shut, { operator: "grace" });
    await go("/unknown");
    await rowsOf(page).first().locator(".row-link").click();
    await page.getByText("You can view records, but not settle them.").waitFor();
    expect(await page.getByRole("button", { name: /settle/iu }).count()).toBe(0);
    const key = keyOf("only-looked-at", { tenant: "looked" });
    const record = await begin(world.place, key);
    await complete(world.place, ownerOf(key, record), jsonAnswer(201, {}));
    await go(`/record/${record.id}`);
    await page.getByRole("heading", { name: "What you can do now" }).waitFor();
    expect(await page.getByRole("button", { name: /forget/iu }).count()).toBe(0);
    await go("/dead");
    await page.locator(".cause").first().waitFor();
    expect(await page.getByRole("button", { name: /redrive|discard/iu }).count()).toBe(0);
    await shut.close();
  });

  test("below another path, with the host's own authentication", async () => {
    const hosted = await serve(world, {
      basePath: "/ops/console",
      authorize: (request) =>
        request.headers.get("cookie")?.includes("user=ada") ? { operator: "ada" } : null,
    });
    const context = await browser?.newContext({ viewport: desk });
    if (context === undefined) return;
    contexts.push(context);
    const page = await context.newPage();
    await page.goto(`${hosted.url}/unknown`);
    await page.getByText("You are not signed in.").waitFor();
    await context.addCookies([{ name: "user", value: "ada", url: hosted.url }]);
    await page.reload();
    await page.getByText("Signed in as ada").waitFor();
    await rowsOf(page).first().waitFor();
    await page.getByRole("link", { name: "Overview" }).first().click();
    await page.locator(".strip").waitFor();
    expect(new URL(page.url()).pathname).toBe("/ops/console/");
    await hosted.close();
  });

  test("three thousand unknowns: pages, ages that filter, and no sideways scroll on a phone", async () => {
    const big = await openWorld();
    const one = await callInDoubt(big.place, keyOf("a".repeat(200), { tenant: "t".repeat(120) }));
    await big.place.pool.query(
      `insert into latchkey.records (id, tenant, scope, key, operation, state, fingerprint_version, fingerprint, attempt, token, created_at, last_error_code)
       select gen_random_uuid(), 'tenant-' || n % 7, scope, 'order-' || n, operation, state, fingerprint_version, fingerprint, attempt, token,
         created_at - n * interval '1 minute', 'call-in-doubt'
       from latchkey.records, generate_series(1, 3000) n where id = $1`,
      [one.id],
    );
    const served2 = await serve(big);
    const { page, go } = await open(served2);
    await go("/unknown");
    await page.getByText("50 records on this page of 3,001, oldest first").waitFor();
    const first = await rowsOf(page).first().textContent();
    await page.getByRole("link", { name: "Next 50" }).click();
    await until(async () => (await rowsOf(page).first().textContent()) !== first);
    await page.getByRole("button", { name: /of age 15 min/u }).click();
    await page.getByText(/of (?:9|10|11), oldest first/u).waitFor();
    const small = await open(served2, { viewport: phone });
    for (const path of ["/", "/unknown", `/record/${one.id}`, "/dead", "/records", "/more"]) {
      await small.go(path);
      await until(async () => (await small.page.locator(".hollow").count()) === 0);
      expect({ path, fits: await isWithinWidth(small.page) }).toEqual({ path, fits: true });
    }
    await served2.close();
    await big.close();
  });
});

describe.runIf(browser !== null)("pictures for the documents", () => {
  test("each page in light, dark and phone width", async () => {
    await buildConsolePage();
    const world = await openWorld(3 * 60 * 60_000);
    rememberRequests(world);
    await fill(world);
    await spreadAges(world);
    await decideSome(world);
    const served = await serve(world, { title: "production" });
    for (const [name, viewport, colorScheme] of [
      ["light", desk, "light"],
      ["dark", desk, "dark"],
      ["phone", phone, "light"],
    ] as const) {
      const { page, go } = await open(served, { viewport, colorScheme });
      const picture = (of: string) => {
        const folder = documented.includes(`${of}-${name}`) ? documents : scratch;
        return page.screenshot({ path: join(folder, `console-${of}-${name}.png`) });
      };
      await go("/");
      await page.locator(".strip").waitFor();
      await picture("overview");
      await go("/unknown?errorCode=call-in-doubt");
      await rowsOf(page).first().waitFor();
      if (name === "phone") await picture("unknown");
      await rowsOf(page).first().locator(".row-link").click();
      await page.getByRole("radio", { name: /It did not happen/u }).check();
      await page.getByRole("radio", { name: /The other service has closed it/u }).check();
      await page.getByLabel("Reason").fill("Closed at the provider's console, ticket PAY-2291");
      await page.getByLabel("Reason").blur();
      await picture("settle");
      await page.getByText("Whole record").click();
      await page.locator(".log").waitFor();
      await picture("record");
      await go("/dead");
      await page.locator(".fold").first().click();
      await page.locator(".inside tbody tr").first().waitFor();
      await picture("dead");
      await go("/tenant?name=acme");
      await page.getByRole("heading", { name: "Last decisions" }).waitFor();
      await page.getByText("wait for a person").waitFor();
      await picture("tenant");
      await go("/audit");
      await page.locator("tbody tr").first().waitFor();
      await picture("audit");
    }
    await served.close();
    await world.close();
  });
});
