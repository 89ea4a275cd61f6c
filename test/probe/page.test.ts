/** What docs/probe.md shows is what the command prints, but for ids and the port. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { allChecks } from "../../packages/latchkey-probe/src/checks/all.ts";
import { faultTable } from "../../packages/latchkey-probe/src/faults.ts";
import { listen } from "../support/listen.ts";
import { runCommand } from "./arrange.ts";
import { expressIdempotencyInMemory } from "./peers.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/probe.md"), "utf8");

function masked(text: string): string {
  return text
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/gu, "<id>")
    .replace(/(127\.0\.0\.1|localhost):\d+/gu, "<address>")
    .trim();
}

test("the output that the page shows is printed", async () => {
  const shown = /```text\n(.*?)```/su.exec(page)?.[1] ?? "";
  const { app } = await expressIdempotencyInMemory();
  const { url, close } = await listen(app);
  const callers = ["--header", "Authorization: Bearer one", "--other-header", "Authorization: Bearer two"];
  const checks = ["--check", "same-key", "--check", "tenants", "--check", "similar-keys"];
  const ran = await runCommand([`${url}/orders`, "--body", '{"amount":1}', ...callers, ...checks]);
  await close();
  expect(masked(shown)).toBe(masked(ran.out));
});

test("the page names every check and every fault, and no others", () => {
  const rows = (heading: string) => {
    const section = page.split(`## ${heading}`)[1]?.split("\n## ")[0] ?? "";
    return [...section.matchAll(/^\| `([a-z-]+)` \|/gmu)].map(([, name]) => name);
  };
  expect(rows("The checks")).toEqual(allChecks.map(({ name }) => name));
  expect(rows("The faults")).toEqual(Object.keys(faultTable));
});
