/** `npm run demo:crash` as a user runs it: what it tells, and that its ending is the truth. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { identify, killTree } from "../support/process-tree.ts";
import { onRelease } from "../support/resources.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

const repository = join(import.meta.dirname, "../..");

async function demo(databaseUrl: string, variables: Readonly<Record<string, string>> = {}) {
  const { DATABASE_URL: _, ...env } = process.env;
  const child = spawn("npm", ["run", "--silent", "demo:crash"], {
    cwd: repository,
    env: { ...env, ...variables, ...(databaseUrl !== "" && { DATABASE_URL: databaseUrl }) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const forget = onRelease(async () => {
    if (child.pid) await killTree(identify(child.pid));
  });
  const [out, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close") as Promise<[number | null]>,
  ]);
  forget();
  return { out, errors, code };
}

/** The lines of the numbered section that begins with `number`. */
function section(out: string, number: number): readonly string[] {
  const text = out.split(/\n(?=\d\. |What )/u).find((part) => part.startsWith(`${number}. `)) ?? "";
  return text.split("\n").map((line) => line.trim());
}

const charges = (lines: readonly string[], label: string) =>
  lines.filter((line) => line.startsWith(`${label} Latchkey`) && /ch_\d+: 5\.00 EUR/u.test(line));

test.each(["the embedded database", "Postgres"])("on %s it ends with one charge", async (where) => {
  const database = where === "Postgres" ? await freshDatabase() : null;
  const { out, errors, code } = await demo(database?.url ?? "");
  expect(errors).toBe("");
  expect(code, out).toBe(0);

  const before = section(out, 2);
  expect(charges(before, "with")).toHaveLength(1);
  expect(charges(before, "without")).toHaveLength(1);

  const crash = section(out, 3).join("\n");
  expect(crash).toContain("record: in_progress, attempt 1");
  expect(crash).toContain("step payment_recorded is finished");
  expect(crash).toMatch(/step charged is started, key lk_\S+, sent 1×/u);
  expect(crash).toContain("no record of the charge in progress");

  const after = section(out, 4);
  expect(charges(after, "with")).toEqual(charges(before, "with"));
  expect(charges(after, "without")).toHaveLength(2);
  const answered = after.find((line) => /^with Latchkey\s+201 /u.test(line));
  expect(section(out, 5)).toContainEqual(`${answered} (replayed)`);

  expect(section(out, 6).join("\n")).toMatch(/record: completed, attempt 2/u);
  expect(out).toMatch(/without Latchkey\s+charged 2 times\n\s+with Latchkey\s+charged once\s*$/u);
  await database?.drop();
});

test("a provider that breaks its word charges twice, and the demo says so", async () => {
  const database = await freshDatabase();
  const { out, errors, code } = await demo(database.url, { DEMO_PROVIDER: "forgetful" });
  expect(errors).toBe("");
  expect(code, out).toBe(1);
  expect(charges(section(out, 4), "with")).toHaveLength(2);
  expect(out).toMatch(/with Latchkey\s+charged 2 times\n\nThis is not what Latchkey promises/u);
  await database.drop();
});

test("a database that is not there is reported plainly, and nothing is left running", async () => {
  const { out, errors, code } = await demo("postgres://postgres@127.0.0.1:1/none");
  expect({ out, code }).toEqual({ out: "", code: 1 });
  expect(errors).toContain("Cannot open the database");
  expect(errors).toContain("The demo cannot continue: a process ended before");
  expect(errors).not.toMatch(/^\s+at /mu);
});
