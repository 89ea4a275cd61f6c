/** The example of events, as a user runs it with a database: what it prints is the truth. */
import { fileURLToPath } from "node:url";
import pg from "pg";
import { expect, test } from "vitest";
import { spawnWorker } from "../support/processes.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

const script = new URL("../../examples/events/main.ts", import.meta.url);

test("every order is shipped once, with messages sent twice, shipping killed after its COMMIT, and brokers killed", async (context) => {
  const { url } = await freshDatabase();
  const example = spawnWorker(fileURLToPath(script), {
    env: { DATABASE_URL: url, CHAOS: "1", ORDERS: "120" },
  });
  const { code } = await example.exited;
  const text = example.lines.map((line) => line.text).join("\n");
  if (/^not run: /mu.test(example.stderr())) return context.skip("a broker is missing");
  expect(code, `${text}\n${example.stderr()}`).toBe(0);
  const countOf = (what: string) => Number(new RegExp(`^${what} +(\\d+)$`, "mu").exec(text)?.[1]);
  expect([countOf("orders placed"), countOf("shipments"), countOf("duplicates executed")]).toEqual([
    120, 120, 0,
  ]);
  expect(countOf("duplicates seen")).toBeGreaterThan(12);
  expect(countOf("shipping killed")).toBeGreaterThan(0);
  expect(countOf("brokers killed")).toBe(3);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query("select order_id from shipments group by order_id having count(*) > 1");
  await client.end();
  expect(rows).toEqual([]);
});
