/**
 * A charge, a crash at the worst moment, a retry: with Latchkey, and next to it the same handler without. Everything that is
 * printed was read from the provider's ledger, from our tables, or from an answer. Exits with 0 only if the charge through
 * Latchkey happened exactly once.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buy, buyPatiently, type Got, type Purchase } from "./client.ts";
import { chargesOf, say, sayAnswer, sayLedger, sayTables } from "./narrator.ts";
import { type Started, start } from "./processes.ts";
import { readTables } from "./tables.ts";

/** How long the key of the dead process stays locked. A real service uses more, such as 30 seconds. */
const leaseMs = 2_000;

/**
 * How the provider behaves after the crash; `forgetful` shows that one charge depends on the provider keeping its promise.
 */
const modeAfterwards = process.env.DEMO_PROVIDER || "ok";
const databaseUrl = process.env.DATABASE_URL || undefined;
const folder = mkdtempSync(join(tmpdir(), "latchkey-crash-demo-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
const ledger = join(folder, "provider.jsonl");
const run = Date.now().toString(36);
const protectedBuy: Purchase = {
  label: "with Latchkey   ",
  order: `with-${run}`,
  key: `key-with-${run}`,
  path: "/charges",
};
const plainBuy: Purchase = {
  label: "without Latchkey",
  order: `without-${run}`,
  key: `key-without-${run}`,
  path: "/charges-without-latchkey",
};
const purchases = [protectedBuy, plainBuy];

interface Place {
  readonly process: Started;
  readonly url: string;
}

async function startProvider(): Promise<Place> {
  const env = { PROVIDER_PORT: "0", PROVIDER_LEDGER: ledger };
  const provider = start(new URL("../provider.ts", import.meta.url), folder, env);
  const [, url = ""] = await provider.line(/"ready":true,"url":"([^"]+)"/u);
  return { process: provider, url };
}

async function startApp(providerUrl: string): Promise<Place> {
  const app = start(new URL("../server.ts", import.meta.url), folder, {
    PORT: "0",
    PROVIDER_URL: providerUrl,
    LEASE_MS: String(leaseMs),
    ALSO_WITHOUT_LATCHKEY: "1",
    // A worker would also continue the charge; here the customer's retry shall do it.
    WORKERS: "off",
  });
  const [, url = ""] = await app.line(/API on (http:\S+), keeping/u);
  return { process: app, url };
}

async function setMode(providerUrl: string, mode: string): Promise<void> {
  const response = await fetch(`${providerUrl}/mode`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ mode }),
  });
  if (!response.ok) throw new Error(`the provider does not know the mode ${mode}`);
}

/** From the first request to the moment when the provider has made both charges and the app has received no answer. */
async function crash(provider: Place, app: Place): Promise<void> {
  await setMode(provider.url, "time-out-after-charging");
  const answers: Promise<Got | null>[] = [];
  for (const purchase of purchases) {
    answers.push(buy(app.url, purchase));
    await provider.process.line(new RegExp(`"signal":"charged".*"description":"${purchase.order}"`, "u"));
  }
  say(
    "",
    "2. Two customers pay 5.00 EUR. The provider charges both cards, and its answers get stuck on the way.",
  );
  sayLedger(ledger, purchases);

  await app.process.end("SIGKILL");
  const heard = (await Promise.all(answers)).filter((got) => got !== null);
  if (heard.length > 0) throw new Error("the app answered, although the provider had not");
  say(
    "",
    `3. The app is killed (kill -9 of process ${app.process.pid}). Both customers lose their connection.`,
  );
  sayTables(purchases, await readTables(databaseUrl, folder, purchases));
  say(
    "   Neither says that a card was charged. One of them says what was about to be sent, and under which key.",
  );
}

async function retry(app: Place): Promise<Got | null> {
  say("", "4. The app starts again, the provider answers again, and both customers retry with the same key.");
  for (const purchase of purchases) {
    await buyPatiently(app.url, purchase, (got) => sayAnswer(purchase, got));
  }
  sayLedger(ledger, purchases);
  say("", "5. The customer of Latchkey's app retries once more.");
  const last = await buy(app.url, protectedBuy);
  if (last !== null) sayAnswer(protectedBuy, last);
  return last;
}

async function main(): Promise<boolean> {
  const provider = await startProvider();
  const first = await startApp(provider.url);
  const where = databaseUrl === undefined ? "an embedded database" : "Postgres at DATABASE_URL";
  say(
    `1. A payment provider (process ${provider.process.pid}) and a payments app (process ${first.process.pid})`,
  );
  say(`   are running. The app keeps its data in ${where}.`);
  await crash(provider, first);
  await setMode(provider.url, modeAfterwards);
  const second = await startApp(provider.url);
  const last = await retry(second);
  await second.process.end("SIGTERM");
  await provider.process.end("SIGTERM");
  say("", "6. Both processes have ended.");
  const tables = await readTables(databaseUrl, folder, purchases);
  sayTables(purchases, tables);
  return verdict(last, tables[0]?.record ?? null);
}

function verdict(last: Got | null, record: string | null): boolean {
  const [charges, plain] = purchases.map((purchase) => chargesOf(ledger, purchase).length);
  const settled = last?.status === 201 && last.replayed && record?.startsWith("completed") === true;
  say("", "What the customers' cards say:");
  say(`   without Latchkey  charged ${times(plain)}`, `   with Latchkey     charged ${times(charges)}`);
  if (charges === 1 && settled) return true;
  say("", "This is not what Latchkey promises: exactly one charge, and an answer that can be had again.");
  return false;
}

function times(count = 0): string {
  return count === 1 ? "once" : `${count} times`;
}

const kept = await main().catch((error: Error) => {
  console.error(`The demo cannot continue: ${error.message}`);
  return false;
});
process.exit(kept ? 0 : 1);
