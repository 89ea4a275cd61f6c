/** The bench runs from end to end in its shortest form, so that it cannot rot unseen. */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { patient } from "../support/patience.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { watchDirectory } from "../support/watchdog.ts";

const main = join(import.meta.dirname, "../../bench/main.ts");

/** About twelve seconds of load on a quiet machine, on servers of each framework: a turn has to be long enough for one request. */
const args = [
  ...["--minutes", (patient(12_000) / 60_000).toFixed(2), "--rounds", "2", "--concurrency", "1,4"],
  ...["--rtt", "0.1", "--only", "express/order/latchkey,fastify/replay,hono/replay/latchkey-memory"],
];

it("measures subjects beside their baselines and writes both forms of the report", async () => {
  const out = scratchDirectory(undefined);
  watchDirectory(out);
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--conditions=latchkey-source",
    main,
    ...args,
    "--out",
    out,
  ]);
  expect(stdout).toContain("### A transaction with two writes: first requests");

  const { results } = JSON.parse(readFileSync(join(out, "performance.json"), "utf8"));
  const names = new Set(
    results.map((one: Record<string, string>) => `${one.framework}/${one.job}/${one.guard}`),
  );
  expect(names).toContain("express/order/none");
  expect(names).toContain("express/order/latchkey");
  expect(names).toContain("express/order/latchkey-optimistic");
  expect(names).toContain("hono/replay/latchkey-memory");
  for (const result of results) {
    expect(result.rounds).toHaveLength(2);
    expect(result.requestsPerSecond).toBeGreaterThan(0);
    expect(result.ratio).toBeGreaterThan(0);
    expect(result.p99Ms).toBeGreaterThanOrEqual(result.p50Ms);
  }
  const page = readFileSync(join(out, "performance.md"), "utf8");
  expect(page).toMatch(/\| express \| \*\*Latchkey, Postgres\*\* \| 4 \| \d+ \| \d+\.\d\d \|/);
  expect(page).toContain("--rounds 2 --concurrency 1,4 --rtt 0.1");
});

/** One round of few connections. Returns the folder of the report. */
async function runShortly(...options: readonly string[]): Promise<string> {
  const out = scratchDirectory(undefined);
  watchDirectory(out);
  await promisify(execFile)(process.execPath, [
    "--conditions=latchkey-source",
    main,
    ...["--minutes", (patient(10_000) / 60_000).toFixed(2), "--rounds", "1", "--concurrency", "2"],
    ...options,
    ...["--out", out],
  ]);
  return out;
}

it("measures another checkout on tables that its own migrations make", async () => {
  const out = await runShortly(
    "--only",
    "fastify/order/latchkey",
    "--against",
    join(import.meta.dirname, "../.."),
  );
  const { results } = JSON.parse(readFileSync(join(out, "performance.json"), "utf8"));
  const rows = results.filter((one: Record<string, string>) => one.guard === "latchkey");
  expect(rows).toHaveLength(2);
  for (const row of rows) expect(row.requestsPerSecond).toBeGreaterThan(0);
});

it("measures DBOS, whose replays run no handler", async () => {
  const out = await runShortly("--only", "dbos");
  const { results } = JSON.parse(readFileSync(join(out, "performance.json"), "utf8"));
  const rates = Object.fromEntries(
    results.map((one: Record<string, string | number>) => [`${one.job}/${one.guard}`, one.requestsPerSecond]),
  );
  expect(Object.keys(rates).toSorted()).toEqual(["order/dbos", "order/none", "replay/dbos", "replay/none"]);
  for (const rate of Object.values(rates)) expect(rate).toBeGreaterThan(0);
  const page = readFileSync(join(out, "performance.md"), "utf8");
  expect(page).toMatch(/\| express \| DBOS, Postgres \| 2 \| \d+ \| \d+\.\d\d \|/);
});

it("measures look-ups and leases, and writes them into the table of all aims", async () => {
  const out = scratchDirectory(undefined);
  watchDirectory(out);
  const bench = join(import.meta.dirname, "../../bench");
  for (const name of ["performance.json", "performance.md"])
    cpSync(join(bench, "../docs", name), join(out, name));
  mkdirSync(join(out, "images"));
  await promisify(execFile)(process.execPath, [
    "--conditions=latchkey-source",
    join(bench, "store/main.ts"),
    ...["--rounds", "1", "--seconds", "0.2", "--concurrency", "4", "--out", out],
  ]);
  const { results } = JSON.parse(readFileSync(join(out, "performance-store.json"), "utf8"));
  expect(results.map(({ name }: { readonly name: string }) => name)).toEqual([
    "one pooled SELECT",
    "replay",
    "two pooled statements",
    "lease",
  ]);
  for (const result of results) expect(result.perSecond).toBeGreaterThan(0);

  await promisify(execFile)(process.execPath, [
    "--conditions=latchkey-source",
    join(bench, "page/main.ts"),
    out,
  ]);
  const page = readFileSync(join(out, "performance.md"), "utf8");
  for (const call of ["replay from Postgres", "lease, reservation and end"])
    expect(page).toMatch(new RegExp(String.raw`\| ${call} ÷ [^|]+ \| ≥ 3 \| \d+\.\d\d \| \d \|`));
  expect(page).toMatch(/\| replay from memory ÷ [^|]+ \| ≥ 0\.85 \| \d[^|]+ \| \d \|/);
  expect(readFileSync(join(out, "images/performance-first-requests.svg"), "utf8")).toMatch(/^<svg /);
  // No run of this one is in the folder.
  expect(page).toMatch(/\| inbox ÷ bare insert \| ≥ 0\.65 \| not measured \| {2}\|/);
});

it("measures an outbox and a job queue, and how soon a request is answered", async () => {
  const out = scratchDirectory(undefined);
  watchDirectory(out);
  await promisify(execFile)(process.execPath, [
    "--conditions=latchkey-source",
    join(import.meta.dirname, "../../bench/dispatch/main.ts"),
    ...["--rounds", "1", "--backlog", "600", "--singles", "3", "--only", "latchkey;pg-boss"],
    ...["--out", out],
  ]);
  const { results } = JSON.parse(readFileSync(join(out, "performance-dispatch.json"), "utf8"));
  expect(results.map(({ name }: { readonly name: string }) => name)).toEqual(["latchkey", "pg-boss"]);
  for (const result of results) {
    expect(result.jobsPerSecond).toBeGreaterThan(0);
    expect(result.wakeUpP99Ms).toBeGreaterThanOrEqual(result.wakeUpP50Ms);
    expect(result.answeredP50Ms).toBeGreaterThan(0);
    expect(result.answeredP99Ms).toBeGreaterThanOrEqual(result.answeredP50Ms);
  }
  const page = readFileSync(join(out, "performance.md"), "utf8");
  expect(page).toMatch(/answered p50 ms \| answered p99 ms \|/);
  expect(page).toMatch(/\| \*\*latchkey\*\* \| \d+ \| 1\.0 × \|( \d+(\.\d)? \|){6}/);
});

it("measures other claims of effects, and shows which of them claim effects twice", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--conditions=latchkey-source",
    join(import.meta.dirname, "../../bench/outbox-claims/main.ts"),
    ...["--rounds", "1", "--backlog", "100", "--page", "50", "--only", "today;hot;page;narrow rows"],
  ]);
  const twice = Object.fromEntries(
    [...stdout.matchAll(/^\| ([a-z ]+) \|.*\| (\d+) \|$/gmu)].map(([, name, count]) => [name, count]),
  );
  expect(twice).toEqual({ today: "0", hot: "0", page: "50", "narrow rows": "0" });
});

it("refuses options that it does not know", async () => {
  const refused = promisify(execFile)(process.execPath, [
    "--conditions=latchkey-source",
    main,
    "--minutes",
    "none",
  ]);
  await expect(refused).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("--minutes must be"),
  });
});

it("measures the JavaScript of a request without network and database", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--conditions=latchkey-source",
    join(import.meta.dirname, "../../bench/code/main.ts"),
    ...["--only", "hono/order/latchkey,hono/replay/none", "--turns", "2", "--warm-up", "1"],
  ]);
  const rows = [...stdout.matchAll(/^\| (hono\S+) \| (\d+\.\d) \| (\d+\.\d) \| (\d+\.\d) \|$/gmu)];
  expect(rows.map(([, name]) => name).toSorted()).toEqual(["hono/order/latchkey", "hono/replay/none"]);
  for (const [, , ...micros] of rows) expect(Math.min(...micros.map(Number))).toBeGreaterThan(0);
});

it("measures what changes with the number of records, the size of answers, processes and time", async () => {
  const out = scratchDirectory(undefined);
  watchDirectory(out);
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--conditions=latchkey-source",
    join(import.meta.dirname, "../../bench/scale/main.ts"),
    ...["--rows", "1000,40000", "--rounds", "1", "--seconds", "0.5", "--churn-minutes", "0.1", "--out", out],
  ]);
  const page = readFileSync(join(out, "performance.md"), "utf8");
  expect(page).toContain(stdout.trim());
  const cells = String.raw`( [\d.,]+ \|)`;
  for (const row of ["first request", "replay"]) {
    expect(stdout).toMatch(new RegExp(String.raw`\| ${row} \| 40,000 \|${cells}{6}`));
    expect(stdout).toMatch(new RegExp(String.raw`\| ${row} \| 1,000,000 \|${cells}{5}`));
    expect(stdout).toMatch(new RegExp(String.raw`\| ${row} \| 8 \|${cells}{5}`));
  }
  expect(stdout).toMatch(new RegExp(String.raw`\| clean-up alone \| [1-9]\d* \|${cells}{2}`));
  // Every sample of the churn forgets what it made.
  const churn = stdout.slice(stdout.indexOf("Churn:")).match(/^\| 0\.1 .*$/gm) ?? [];
  expect(churn.length).toBeGreaterThan(0);
});
