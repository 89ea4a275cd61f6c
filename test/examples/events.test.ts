/** The example of events, as a user runs it against brokers and a database of his own: what it prints is the truth. */
import { fileURLToPath } from "node:url";
import pg from "pg";
import { expect, test } from "vitest";
import { startNats, startRabbitmq } from "../support/private-brokers.ts";
import { spawnWorker } from "../support/processes.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

const script = new URL("../../examples/events/main.ts", import.meta.url);

test("every order is shipped once, with messages sent twice and shipping killed after its COMMIT", async (context) => {
  const [rabbitmq, nats] = await Promise.all([startRabbitmq(), startNats()]);
  if (rabbitmq === undefined || nats === undefined) return context.skip("a broker is missing");
  const { url } = await freshDatabase();
  const example = spawnWorker(fileURLToPath(script), {
    env: { DATABASE_URL: url, RABBITMQ_URL: rabbitmq.url, NATS_URL: nats.url, CHAOS: "1", ORDERS: "200" },
  });
  const { code } = await example.exited;
  const text = example.lines.map((line) => line.text).join("\n");
  expect(code, `${text}\n${example.stderr()}`).toBe(0);
  const told = (what: string) => Number(new RegExp(`^${what} +(\\d+)$`, "mu").exec(text)?.[1]);
  expect([told("orders placed"), told("shipments"), told("duplicates executed")]).toEqual([200, 200, 0]);
  expect(told("duplicates seen")).toBeGreaterThan(20);
  expect(told("shipping killed")).toBeGreaterThan(0);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query("select order_id from shipments group by order_id having count(*) > 1");
  await client.end();
  expect(rows).toEqual([]);
}, 150_000);
