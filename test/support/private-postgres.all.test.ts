import { existsSync } from "node:fs";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { installedVersions } from "./postgres-binaries.ts";
import { type PrivatePostgres, startPostgres } from "./private-postgres.ts";
import { freezeProcess, identify, isAlive } from "./process-tree.ts";
import { startStandby } from "./standby.ts";
import { startProxy } from "./tcp-proxy.ts";
import { isThorough } from "./thorough.ts";
import { backendPid, until, untilBlocked } from "./until.ts";

async function client(server: PrivatePostgres): Promise<pg.Client> {
  const connected = new pg.Client(server.connection);
  connected.on("error", () => {});
  await connected.connect();
  onTestFinished(() => connected.end());
  return connected;
}

describe.each(isThorough ? installedVersions() : installedVersions().slice(-1))(
  "a private PostgreSQL %i",
  (version) => {
    it("starts, keeps committed rows through kill -9, and leaves nothing behind", async () => {
      const server = await startPostgres({ version });
      const [row] = await server.admin<{ server_version_num: string }>("show server_version_num");
      expect(Math.floor(Number(row?.server_version_num) / 10_000)).toBe(version);
      const session = await client(server);
      await session.query("create table kept (a int)");
      await session.query("insert into kept values (1)");
      await session.query("begin; insert into kept values (2)");
      const [postmaster, backend] = [server.pid, await backendPid(session)].map(identify);
      const { url } = server;

      await server.kill9();
      expect(server.running).toBe(false);
      expect([postmaster, backend].map((one) => one && isAlive(one))).toEqual([false, false]);

      await server.restart();
      expect(server.url).toBe(url);
      expect(await server.admin("select a from kept")).toEqual([{ a: 1 }]);

      await server.stop();
      expect(existsSync(server.dataDir)).toBe(false);
      expect(existsSync(server.socketDir)).toBe(false);
    });

    it("gets a standby that replicates, rejects writes, and keeps acknowledged rows when promoted", async () => {
      const primary = await startPostgres({ version });
      await primary.admin("create table orders (a int)");
      const proxy = await startProxy({ to: primary });
      const standby = await startStandby(primary, { synchronous: true, through: proxy });
      await primary.admin("insert into orders values (1)");
      await standby.untilCaughtUp();
      expect(await standby.admin("select a from orders")).toEqual([{ a: 1 }]);
      await expect(standby.admin("insert into orders values (2)")).rejects.toMatchObject({ code: "25006" });

      proxy.stall();
      const waiting = primary.admin("insert into orders values (3)").catch(() => "not acknowledged");
      await until(
        () => primary.admin("select 1 from pg_stat_activity where wait_event = 'SyncRep'").then(first),
        {
          what: "a commit waits for the standby",
        },
      );
      await primary.kill9();
      expect(await waiting).toBe("not acknowledged");
      await standby.promote();
      expect(await standby.admin("insert into orders values (4) returning a")).toEqual([{ a: 4 }]);
      expect(await standby.admin("select a from orders order by a")).toEqual([{ a: 1 }, { a: 4 }]);
      await standby.stop();
      await primary.stop();
    });
  },
);

const first = (rows: unknown[]) => rows[0];

describe("a private PostgreSQL", () => {
  it("applies settings at start, while it runs, and at a restart", async () => {
    await using server = await startPostgres({ conf: { max_connections: 20, application_name: "it's" } });
    const show = async (name: string) => Object.values((await server.admin(`show ${name}`))[0] ?? {})[0];
    expect([await show("max_connections"), await show("fsync")]).toEqual(["20", "off"]);
    expect(await server.admin("select reset_val from pg_settings where name = 'application_name'")).toEqual([
      { reset_val: "it's" },
    ]);
    await server.configure({ statement_timeout: "7s" });
    await until(async () => (await show("statement_timeout")) === "7s");
    await server.restart({ max_connections: 25 });
    expect(await show("max_connections")).toBe("25");
  });

  it("notifies its sessions when it shuts down", async () => {
    await using server = await startPostgres();
    const session = await client(server);
    const notified = new Promise((resolve) => session.once("error", resolve));
    await server.shutdown();
    expect(await notified).toMatchObject({ code: "57P01" });
  });

  it("stops although a backend is frozen", async () => {
    const server = await startPostgres();
    const session = await client(server);
    await freezeProcess(await backendPid(session));
    await server.stop();
    expect(server.running).toBe(false);
  });

  it("shows which session blocks which", async () => {
    await using server = await startPostgres();
    const [holder, waiter] = [await client(server), await client(server)];
    const [holderPid, waiterPid] = [await backendPid(holder), await backendPid(waiter)];
    await holder.query("select pg_advisory_lock(1)");
    const waiting = waiter.query("select pg_advisory_lock(1)");
    expect(await untilBlocked(server.url, waiterPid)).toEqual([holderPid]);
    await holder.query("select pg_advisory_unlock(1)");
    await waiting;
  });

  it("reports why it does not start", async () => {
    await expect(startPostgres({ conf: { no_such_setting: 1 } })).rejects.toThrow(
      'unrecognized configuration parameter "no_such_setting"',
    );
  });

  it("starts several servers at once", async () => {
    const servers = await Promise.all([startPostgres(), startPostgres(), startPostgres()]);
    expect(new Set(servers.map(({ port }) => port)).size).toBe(3);
    await Promise.all(servers.map((server) => server.stop()));
  });
});
