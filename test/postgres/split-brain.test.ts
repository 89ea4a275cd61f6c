/** A primary that goes on while its synchronous standby has been promoted: nothing that it writes is acknowledged. */
import { expect, test } from "vitest";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { startPostgres } from "../support/private-postgres.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { startStandby } from "../support/standby.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { countRows, newKey, newLife, writing } from "./arrange.ts";
import { openPool, prepareDatabase } from "./harness.ts";

test.each(postgresVersions())(
  "two primaries: the old one acknowledges nothing once its synchronous standby has been promoted, PostgreSQL %i",
  async (version) => {
    const primary = await startPostgres({ version, conf: { max_connections: 40 } });
    await prepareDatabase(primary.url);
    const replication = await startProxy({ to: { port: primary.port } });
    const standby = await startStandby(primary, { synchronous: true, through: replication });
    const pool = openPool(primary.url, { max: 4 });
    const old = postgresStore({ pool });
    const before = newLife(newKey());
    expect((await writing(old, before)).kind).toBe("committed");
    await replication.cut();
    await standby.promote();
    const copy = openPool(standby.url, { max: 4 });
    const young = postgresStore({ pool: copy });

    const life = newLife(newKey());
    const { key, tenant, scope } = life;
    const here = writing(old, life).then(
      ({ kind }) => kind,
      () => "failed",
    );
    const waits =
      "select 1 from pg_stat_activity where wait_event = 'SyncRep' and backend_type = 'client backend'";
    await until(async () => (await primary.admin(waits)).length > 0, { what: "its COMMIT waits" });
    const there = newLife({ key, tenant, scope });
    expect((await writing(young, there)).kind).toBe("committed");
    await primary.kill9();
    expect(["in_doubt", "failed"], "never committed").toContain(await here);
    expect((await young.read(before)).record).toMatchObject({ id: before.id, state: "completed" });
    expect((await young.read(there)).record).toMatchObject({ id: there.id, state: "completed" });
    expect(await countRows(copy, there)).toBe(1);
    await copy.end();
    await pool.end();
  },
);
