/** `latchkey doctor` before servers and poolers of its own. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { notRun } from "../support/not-run.ts";
import { Pooler } from "../support/pooler.ts";
import { type PrivatePostgres, startPostgres } from "../support/private-postgres.ts";
import { startStandby } from "../support/standby.ts";
import { openPlace, type Place } from "./arrange.ts";
import { alter, examineDatabase, examineService } from "./doctor-arrange.ts";

let place: Place;
let server: PrivatePostgres;
beforeAll(async () => {
  [place, server] = await Promise.all([openPlace(), startPostgres()]);
});
afterAll(async () => {
  await place.close();
  await server.stop();
});

test("a server whose autovacuum is off", async () => {
  await alter(server.url, "create schema latchkey", "create table latchkey.settings ()");
  const vacuum = async () => (await examineDatabase(server.url)).of("vacuum");
  expect((await vacuum()).status).toBe("ok");
  await alter(server.url, "alter system set autovacuum = off", "select pg_reload_conf()");
  await expect.poll(vacuum).toMatchObject({
    status: "failed",
    remedy: "Set autovacuum to on in postgresql.conf.",
  });
});

test("a standby", async () => {
  const standby = await startStandby(server);
  const found = await examineDatabase(standby.url);
  await standby.stop();
  expect(found.exitCode).toBe(1);
  expect(found.of("read-only").message).toContain("The server is a standby");
});

test.each([
  ["transaction", "warning", { notify: true, namedStatements: true }, "failed"],
  ["transaction", "warning", { notify: false, namedStatements: true }, "warning"],
  ["transaction", "warning", { notify: false, namedStatements: false }, "ok"],
  ["session", "ok", { notify: true, namedStatements: true }, "ok"],
] as const)(
  "pgbouncer in %s mode is %s without a config, and with %j %s",
  async (mode, alone, store, found) => {
    const settings = { pool_mode: mode };
    const pooler = await Pooler.open("pgbouncer", { to: place.url, settings });
    if (pooler === null) return notRun("doctor behind pgbouncer", "it is not to be had");
    try {
      expect((await examineDatabase(pooler.url)).of("pooler").status).toBe(alone);
      const pool = { max: 4, connectionTimeoutMillis: 3_000 };
      const behind = await examineService({ postgres: { url: pooler.url, pool, store } });
      expect(behind.of("pooler").status).toBe(found);
      expect(behind.of("pooler").message).toContain(
        mode === "session" ? "has its own session" : "transaction mode",
      );
    } finally {
      await pooler.stop();
    }
  },
);
