/** A database that was moved by copying its rows: the sequence behind the outbox begins anew. */
import type pg from "pg";
import { beforeEach, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { until } from "../support/until.ts";
import { migratedDatabase, openPool } from "./harness.ts";

let url = "";
let pool: pg.Pool;
beforeEach(async () => {
  url = await migratedDatabase();
  pool = openPool(url, { connectionTimeoutMillis: 5_000 });
});

function service(over: pg.Pool = pool) {
  const store = postgresStore({ pool: over, notify: false });
  const sent: string[] = [];
  const errors: unknown[] = [];
  const latchkey = createLatchkey({
    store,
    onEvent: (event) => {
      if (event.type === "service_error") errors.push(event.error);
    },
  });
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
    });
  return { store, latchkey, sent, errors, place };
}

const copied = () => pool.query("alter sequence latchkey.outbox_position_seq restart with 1");

describe("after a move by logical replication", () => {
  test.each(["another process", "a process that goes on"])(
    "ordered effects keep their order, in %s",
    async (which) => {
      const before = service();
      for (const name of ["created", "paid"]) await before.place(name);
      await copied();
      const after = which === "another process" ? service() : before;
      // What a process that goes on does every ten seconds.
      if (after === before) await after.store.verify();
      for (const name of ["shipped", "closed"]) await after.place(name);
      const worker = after.latchkey.startWorker();
      await until(() => after.sent.length === 4);
      await worker.stop();
      expect(after.sent).toEqual(["created", "paid", "shipped", "closed"]);
      await pool.end();
    },
  );

  test("a role that may not set the sequence enqueues and delivers nothing in the wrong order, and names the step", async () => {
    const before = service();
    for (const name of ["created", "paid"]) await before.place(name);
    await copied();
    const role = `narrow_${process.pid}`;
    await pool.query(`create role ${role} login; grant usage on schema latchkey to ${role};
      grant select, insert, update, delete on all tables in schema latchkey to ${role};
      grant select on all sequences in schema latchkey to ${role}`);
    const narrow = new URL(url);
    narrow.username = role;
    const own = openPool(narrow.href, { connectionTimeoutMillis: 5_000 });
    const after = service(own);
    await expect(after.place("shipped")).rejects.toMatchObject({
      code: "schema-invalid",
      message: expect.stringContaining("setval"),
    });
    await expect(after.store.verify()).rejects.toMatchObject({ code: "schema-invalid" });
    const worker = after.latchkey.startWorker();
    await until(() => after.errors.some((error) => String(error).includes("setval")));
    expect(after.sent).toEqual([]);
    await pool.query("select setval('latchkey.outbox_position_seq', 1000)");
    await after.place("shipped");
    await until(() => after.sent.length === 3);
    await worker.stop();
    expect(after.sent).toEqual(["created", "paid", "shipped"]);
    await own.end();
    await pool.query(`drop owned by ${role}; drop role ${role}`);
    await pool.end();
  });

  test("no other column of the schema depends on a sequence", async () => {
    const { rows } = await pool.query("select sequencename from pg_sequences where schemaname = 'latchkey'");
    expect(rows).toEqual([{ sequencename: "outbox_position_seq" }]);
    await pool.end();
  });
});
