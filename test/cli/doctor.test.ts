/** Each check of `latchkey doctor` on a database that is in the state it looks for; remedies are followed. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { redisProgram, startRedis } from "../support/private-redis.ts";
import { fillPgliteFolder } from "../support/ready-pglite.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { latchkey, openPlace, type Place } from "./arrange.ts";
import { alter, examineDatabase, examineService, newRole, type Role, statementOf } from "./doctor-arrange.ts";

let place: Place;
let role: Role | null = null;
beforeEach(async () => {
  place = await openPlace();
});
afterEach(async () => {
  await role?.drop();
  role = null;
  await place.close();
});

const pool = { max: 4, connectionTimeoutMillis: 3_000 };
const service = (more: object = {}) => ({ postgres: { url: place.url, pool, ...more } });
const nameOf = (url: string) => new URL(url).pathname.slice(1);

describe("on Postgres", () => {
  test("a healthy database: a line for each check, and exit code 0", async () => {
    const { exitCode, statuses } = await examineDatabase(place.url);
    expect({ exitCode, statuses }).toEqual({
      exitCode: 0,
      statuses: {
        connection: "ok",
        isolation: "ok",
        "read-only": "ok",
        "row-level-security": "ok",
        "search-path": "ok",
        privileges: "ok",
        migrations: "ok",
        clock: "ok",
        sequence: "ok",
        vacuum: "ok",
        records: "ok",
        leases: "not_checked",
        pool: "not_checked",
        pooler: "ok",
      },
    });
    const { out, errors } = await latchkey(place.url, "doctor");
    expect(errors).toBe("");
    expect(out.split("\n")).toHaveLength(Object.keys(statuses).length);
    expect(out).toMatch(/^ok +connection +PostgreSQL [\d.]+.*, database test_\w+, role postgres\.$/mu);
  });

  test("a healthy service", async () => {
    const { exitCode, statuses, of } = await examineService(service());
    expect(exitCode).toBe(0);
    expect(statuses).toMatchObject({ pool: "ok", pooler: "ok", leases: "ok" });
    expect(of("pool").message).toContain("3000 ms");
  });

  test("a server that does not answer", async () => {
    const gone = "postgres://nobody:secret@127.0.0.1:1/none";
    const { exitCode, statuses, of } = await examineDatabase(gone);
    expect(exitCode).toBe(1);
    expect(statuses).toEqual({ connection: "failed", pool: "not_checked" });
    expect(of("connection").message).toContain("ECONNREFUSED");
    expect(JSON.stringify(of("connection"))).not.toContain("secret");
  });

  test("a role that may not enter the schema, then one that may only read: the printed grants make it whole", async () => {
    role = await newRole(place.url);
    const closed = await examineDatabase(role.url);
    expect(closed).toMatchObject({
      exitCode: 1,
      statuses: { privileges: "failed", migrations: "not_checked" },
    });
    await alter(place.url, statementOf(closed.of("privileges")));
    await alter(place.url, `grant select on all tables in schema latchkey to ${role.name}`);
    const narrow = await examineDatabase(role.url);
    expect(narrow.statuses).toMatchObject({ privileges: "failed", migrations: "ok" });
    expect(narrow.of("privileges").message).toContain("insert on records");
    await alter(place.url, statementOf(narrow.of("privileges")));
    const whole = await examineDatabase(role.url);
    expect(whole).toMatchObject({ exitCode: 0, statuses: { privileges: "ok" } });
  });

  test("what it asks for is enough: a role with exactly those rights serves", async () => {
    role = await newRole(place.url);
    await alter(
      place.url,
      `grant usage on schema latchkey to ${role.name}`,
      `grant select, insert, update, delete on latchkey.records, latchkey.leases, latchkey.steps, latchkey.outbox, latchkey.messages, latchkey.early, latchkey.facts, latchkey.audit to ${role.name}`,
      `grant select on latchkey.settings to ${role.name}`,
    );
    expect((await examineDatabase(role.url)).of("privileges").status).toBe("ok");
    await serveAs(role.url);
  });

  test("row-level security that hides rows", async () => {
    role = await newRole(place.url);
    await alter(
      place.url,
      `grant usage on schema latchkey to ${role.name}`,
      `grant select, insert, update, delete on all tables in schema latchkey to ${role.name}`,
      "alter table latchkey.outbox enable row level security",
    );
    const hidden = await examineDatabase(role.url);
    expect(hidden).toMatchObject({ exitCode: 1, statuses: { "row-level-security": "failed" } });
    expect(hidden.of("row-level-security").message).toContain("outbox");
    await alter(place.url, "create policy all_rows on latchkey.outbox for all using (true)");
    expect(await examineDatabase(role.url)).toMatchObject({ exitCode: 0 });
  });

  test("a search_path with operators of another meaning", async () => {
    await alter(
      place.url,
      "create schema hostile",
      "create function hostile.never(text, text) returns boolean language sql immutable as 'select false'",
      "create operator hostile.= (leftarg = text, rightarg = text, function = hostile.never)",
      `alter database ${nameOf(place.url)} set search_path = hostile, pg_catalog, public`,
    );
    const { exitCode, of, statuses } = await examineDatabase(place.url);
    expect(exitCode).toBe(1);
    expect(of("search-path")).toMatchObject({
      status: "failed",
      message: expect.stringContaining("hostile"),
    });
    expect(statuses).not.toHaveProperty("privileges");
  });

  test("no tables, older tables, newer tables", async () => {
    const empty = await freshDatabase();
    const none = await examineDatabase(empty.url);
    await empty.drop();
    expect(none).toMatchObject({ exitCode: 1, statuses: { migrations: "failed" } });
    expect(none.of("migrations")).toMatchObject({
      message: expect.stringContaining("lacks tables: audit, early, facts, leases, "),
      remedy: expect.stringContaining("latchkey migrate"),
    });
    const version = (value: number) =>
      alter(place.url, `update latchkey.settings set value = '${value}' where name = 'schema_version'`);
    await version(2);
    const older = await examineDatabase(place.url);
    expect(older.of("migrations").remedy).toContain("latchkey migrate");
    await version(99);
    const newer = await examineDatabase(place.url);
    expect(newer.of("migrations")).toMatchObject({
      status: "failed",
      remedy: "Use the version of the package that migrated it, or a newer one.",
    });
    await alter(place.url, "drop table latchkey.early", "update latchkey.settings set value = '2'");
    expect((await examineDatabase(place.url)).of("migrations").message).toContain("lacks tables: early");
  });

  test("a store whose clock is an hour ahead", async () => {
    await alter(
      place.url,
      "create function ahead() returns timestamptz language sql as $$select clock_timestamp() + interval '1 hour'$$",
    );
    const { exitCode, of } = await examineService(service({ store: { timeFunction: "public.ahead()" } }));
    expect(exitCode).toBe(0);
    expect(of("clock")).toMatchObject({
      status: "warning",
      message: expect.stringMatching(/is (?:3600|3599)\.\d s ahead of this machine's/u),
    });
  });

  test("serializable by default is a warning, read-only by default a failure", async () => {
    const set = (setting: string) => alter(place.url, `alter database ${nameOf(place.url)} set ${setting}`);
    await set("default_transaction_isolation = serializable");
    expect(await examineDatabase(place.url)).toMatchObject({
      exitCode: 0,
      statuses: { isolation: "warning" },
    });
    await set("default_transaction_read_only = on");
    const { exitCode, of } = await examineDatabase(place.url);
    expect(exitCode).toBe(1);
    expect(of("read-only")).toMatchObject({
      status: "failed",
      message: expect.stringContaining("default_transaction_read_only is on"),
    });
  });

  test("a sequence behind its rows stays as it is, and the printed statement sets it right", async () => {
    await enqueueOrdered();
    await alter(place.url, "alter sequence latchkey.outbox_position_seq restart with 1");
    const behind = await examineDatabase(place.url);
    expect(behind).toMatchObject({ exitCode: 1, statuses: { sequence: "failed" } });
    const again = await examineDatabase(place.url);
    expect(again.of("sequence").status, "the look has healed nothing").toBe("failed");
    await alter(place.url, statementOf(again.of("sequence")));
    expect(await examineDatabase(place.url)).toMatchObject({ exitCode: 0, statuses: { sequence: "ok" } });
  });

  test("a role that may not read the sequence is reported", async () => {
    role = await newRole(place.url);
    await alter(
      place.url,
      `grant usage on schema latchkey to ${role.name}`,
      `grant select, insert, update, delete on all tables in schema latchkey to ${role.name}`,
    );
    expect((await examineDatabase(role.url)).of("sequence").status).toBe("not_checked");
  });

  test("autovacuum that is off for a table, and rows that are dead", async () => {
    await alter(place.url, "alter table latchkey.records set (autovacuum_enabled = off)");
    const off = await examineDatabase(place.url);
    expect(off).toMatchObject({ exitCode: 1, statuses: { vacuum: "failed" } });
    expect(off.of("vacuum").message).toContain("records");
    await alter(place.url, statementOf(off.of("vacuum")));
    // One transaction, so that no autovacuum takes the rows before they are looked at.
    await alter(
      place.url,
      "alter table latchkey.audit set (autovacuum_vacuum_threshold = 2000000000)",
      `insert into latchkey.audit (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof)
        select gen_random_uuid(), now(), 't', 's', 'k', gen_random_uuid(), 'e', 'unknown', 'failed', 'a', 'p'
        from generate_series(1, 12000)`,
      "delete from latchkey.audit",
      "select pg_stat_force_next_flush()",
    );
    const dead = await examineDatabase(place.url);
    expect(dead.of("vacuum")).toMatchObject({
      status: "warning",
      message: expect.stringContaining("audit 12000"),
    });
    await alter(place.url, 'vacuum "latchkey".audit', "select pg_stat_force_next_flush()");
    expect((await examineDatabase(place.url)).of("vacuum").status).toBe("ok");
  });

  test("records whose columns do not fit their state", async () => {
    await place.pool.query(
      `insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt, token,
          answer, input, created_at, finished_at, expires_at, forget_at)
        select 't', 's', gen_random_uuid()::text, id, 'o', 'completed', 1, 'x', 1, gen_random_uuid(), 'x', input, now(),
          now(), now() + interval '1 day', now() + interval '1 day'
        from (values (uuid '00000000-0000-7000-8000-000000000001', null::bytea),
          ('00000000-0000-7000-8000-000000000002', 'kept'), ('00000000-0000-7000-8000-000000000003', 'kept'),
          ('00000000-0000-7000-8000-000000000004', null)) x(id, input)`,
    );
    const { exitCode, of } = await examineDatabase(place.url);
    expect(exitCode).toBe(1);
    expect(of("records")).toMatchObject({
      status: "failed",
      message: expect.stringContaining(
        "Of the newest records (4), 2 have columns that do not fit their state",
      ),
    });
    const [select = ""] = /select \* from .*?'[^']+'/u.exec(of("records").remedy ?? "") ?? [];
    const { rows } = await place.pool.query(select);
    expect(rows).toMatchObject([{ id: "00000000-0000-7000-8000-000000000003", input: Buffer.from("kept") }]);
    await place.pool.query("update latchkey.records set input = null");
    expect((await examineDatabase(place.url)).of("records").status).toBe("ok");
  });

  test("a lease below the 99th percentile of its attempts", async () => {
    const attempts = (count: number) =>
      alter(
        place.url,
        `insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt,
            token, answer, created_at, finished_at, expires_at, forget_at)
          select 't', 'payments.charge', gen_random_uuid()::text, gen_random_uuid(), 'payments.charge', 'completed', 1, 'x', 1,
            gen_random_uuid(), 'x', now() - n * interval '100 milliseconds', now(), now() + interval '1 day',
            now() + interval '1 day'
          from generate_series(1, ${count}) n`,
      );
    await attempts(50);
    const few = await examineService({ ...service(), leaseMs: 9_000 });
    expect(few.of("leases")).toMatchObject({
      status: "not_checked",
      message: expect.stringContaining("50 finished"),
    });
    await attempts(100);
    const short = await examineService({ ...service(), leaseMs: 9_000 });
    expect(short.exitCode).toBe(0);
    expect(short.of("leases")).toMatchObject({
      status: "warning",
      message: expect.stringMatching(
        /lease of 9000 ms is below the 99th percentile of 150 attempts, 9[89]\d\d ms/u,
      ),
    });
    const long = await examineService({ ...service(), leaseMs: 30_000 });
    expect(long.of("leases").status).toBe("ok");
  });

  test.each([
    ["without connectionTimeoutMillis", { max: 4 }, 1, "failed", "connectionTimeoutMillis"],
    ["of one", { max: 1, connectionTimeoutMillis: 3_000 }, 0, "warning", "lease"],
    [
      "of three",
      { max: 3, connectionTimeoutMillis: 3_000 },
      0,
      "warning",
      "a worker with `notify` needs at least 4",
    ],
  ])("a pool %s", async (_, options, exitCode, status, message) => {
    const found = await examineService(service({ pool: options }));
    expect(found.exitCode).toBe(exitCode);
    expect(found.of("pool")).toMatchObject({ status, message: expect.stringContaining(message) });
    expect(found.of("pooler").status).toBe(options.max === 1 ? "not_checked" : "ok");
  });

  test("a database that is down is reported together with a pool that would hang on it", async () => {
    const url = "postgres://postgres@127.0.0.1:1/none";
    const { exitCode, statuses } = await examineService({ postgres: { url, pool: {} } });
    expect({ exitCode, statuses }).toEqual({
      exitCode: 1,
      statuses: { connection: "failed", pool: "failed" },
    });
  });
});

test("--config and --database-url exclude each other", async () => {
  const { exitCode, errors } = await latchkey(place.url, "doctor", "--config", "x.ts", "--schema", "s");
  expect(exitCode).toBe(2);
  expect(errors).toContain("exclude each other");
});

/** Both executions, an unknown that is settled, deliveries and the record-cleaner, all in one role. */
async function serveAs(url: string): Promise<void> {
  const own = new pg.Pool({ connectionString: url, ...pool });
  own.on("error", () => {});
  const store = postgresStore({ pool: own });
  const made = createLatchkey({ store });
  const mail = made.effect("mail", { deduplication: "none", execute: async (_: unknown) => null });
  const order = made.operation("order", { writes: "none", retentionMs: 1 });
  const charge = made.operation("charge", { execution: "lease" });
  const request = (key: string) => ({ tenant: "t", key, input: null });
  await made.run(order, request("1"), async ({ attempt }) => {
    attempt.enqueue(mail, {});
  });
  await made.run(charge, request("1"), async () => null);
  let recordId = "";
  const lost = made.run(charge, request("2"), async ({ attempt }) => {
    recordId = attempt.id;
    throw new Error("after the call");
  });
  await expect(lost).rejects.toThrow("after the call");
  const settled = await made.settle({ recordId }, { failed: { status: 402, headers: {}, body: "declined" } });
  expect(settled).toMatchObject({ kind: "settled" });
  const report = await made.work({ untilMs: 20_000 });
  expect(report.effectDispatcher?.delivered).toBe(1);
  await store.close();
  await own.end();
}

async function enqueueOrdered(): Promise<void> {
  const made = createLatchkey({ store: place.store });
  const publish = made.effect("publish", {
    deduplication: "none",
    delivery: { ordered: true },
    execute: async (_: unknown) => null,
  });
  const order = made.operation("order", { writes: "none" });
  for (const key of ["created", "paid"]) {
    await made.run(order, { tenant: "t", key, input: null }, async ({ attempt }) => {
      attempt.enqueue(publish, { key }, { aggregate: "order-7" });
    });
  }
}

describe("on PGlite", () => {
  test("a healthy one is examined, without what it does not have", async () => {
    const folder = mkdtempSync(join(tmpdir(), "latchkey-doctor-"));
    try {
      const pglite = join(folder, "data");
      await fillPgliteFolder(pglite);
      const { exitCode, statuses, of } = await examineService({ pglite, leaseMs: 5_000 });
      expect(exitCode).toBe(0);
      expect(statuses).toMatchObject({
        connection: "ok",
        migrations: "ok",
        vacuum: "ok",
        leases: "not_checked",
      });
      expect(statuses).not.toHaveProperty("pool");
      expect(of("vacuum").message).toBe("There are few dead rows.");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe.skipIf(redisProgram() === undefined)("on Redis", () => {
  test.each([
    [{ appendonly: "yes" }, 0, "ok", "ok"],
    [{ appendonly: "no" }, 0, "ok", "warning"],
    [{ "maxmemory-policy": "allkeys-lru" }, 0, "warning", "warning"],
    [{ "maxmemory-policy": "allkeys-lru", maxmemory: "50mb", appendonly: "yes" }, 1, "failed", "ok"],
  ])("with %j", async (conf, exitCode, eviction, persistence) => {
    const server = await startRedis({ conf });
    if (server === undefined) return;
    const found = await examineService({ redis: server.url, leaseMs: 5_000 });
    await server.stop();
    expect(found.exitCode).toBe(exitCode);
    expect(found.statuses).toMatchObject({
      connection: "ok",
      eviction,
      persistence,
      clock: "ok",
      leases: "not_checked",
    });
  });
});
