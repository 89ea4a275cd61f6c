/** A move by logical replication, with a publication and a subscription of Postgres's own. */
import pg from "pg";
import { describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { type PrivatePostgres, startPostgres } from "../support/private-postgres.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";
import { openPool, prepareDatabase } from "./harness.ts";

function service(url: string) {
  const pool = openPool(url, { connectionTimeoutMillis: 5_000 });
  const store = postgresStore({ pool, notify: false });
  const sent: string[] = [];
  const latchkey = createLatchkey({ store });
  const publish = latchkey.effect("publish", {
    deduplication: "provider",
    dedupeWindowMs: 3_600_000,
    delivery: { ordered: true },
    execute: async (input: { readonly name: string }) => {
      sent.push(input.name);
      return null;
    },
  });
  const order = latchkey.operation("order", { writes: "none" });
  const place = (name: string) =>
    latchkey.run(order, { tenant: "t", key: name, input: name }, async ({ attempt }) => {
      attempt.enqueue(publish, { name }, { aggregate: "order-7" });
      return { name };
    });
  const close = async () => {
    await store.close();
    await pool.end();
  };
  return { pool, store, latchkey, sent, place, close };
}

async function newDatabase(server: PrivatePostgres, name: string): Promise<string> {
  await server.admin(`create database ${name}`);
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  await prepareDatabase(url.href);
  return url.href;
}

const servers = { "to a server of the same version": 0, "to a newer major version": 1 };

describe.each(Object.entries(servers))("a move by logical replication %s", (_, newer) => {
  const versions = postgresVersions();
  const [from, to] = [versions[0], versions[newer]];

  test.runIf(to !== undefined)("keeps the records, and the order of effects", async () => {
    if (from === undefined || to === undefined) return;
    await using left = await startPostgres({ version: from, conf: { wal_level: "logical" } });
    await using right = await startPostgres({ version: to });
    const [old, next] = [await newDatabase(left, "shop"), await newDatabase(right, "shop")];
    const before = service(old);
    for (const name of ["created", "paid"]) await before.place(name);
    await before.pool.query("create publication moving for tables in schema latchkey");
    const subscriber = new pg.Client({ connectionString: next });
    subscriber.on("error", () => {});
    await subscriber.connect();
    // As docs/upgrading.md says: `migrate` has left rows in both, and their copies would be refused for ever.
    await subscriber.query("truncate latchkey.migrations, latchkey.settings");
    await subscriber.query(`create subscription moving connection '${old}' publication moving`);
    await before.place("packed");
    const isCopied = async () => {
      const { rows } = await subscriber.query(`select (select count(*)::int from latchkey.outbox) as effects,
        (select count(*)::int from pg_subscription_rel where srsubstate <> 'r') as tables`);
      return rows[0].effects === 3 && rows[0].tables === 0;
    };
    await until(isCopied, { what: "what was there and what came since are copied" });
    await before.close();
    await subscriber.query("drop subscription moving");
    const { rows } = await subscriber.query(
      "select last_value::int as last, (select max(position)::int from latchkey.outbox) as greatest from latchkey.outbox_position_seq",
    );
    expect(rows[0].last, "Postgres leaves sequences behind").toBeLessThan(rows[0].greatest);
    await subscriber.end();

    const after = service(next);
    await after.store.verify();
    expect(await after.place("paid")).toMatchObject({ kind: "replay", value: { name: "paid" } });
    for (const name of ["shipped", "closed"]) await after.place(name);
    const worker = after.latchkey.startWorker();
    await until(() => after.sent.length === 5);
    await worker.stop();
    expect(after.sent).toEqual(["created", "paid", "packed", "shipped", "closed"]);
    await after.close();
  });
});
