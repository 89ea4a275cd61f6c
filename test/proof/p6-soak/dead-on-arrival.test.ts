/**
 * A connection that the server ends in the moment in which it is there: "ready" and "terminated" are read as one piece. The
 * soak found processes that died of it, as nobody had listened for the client's error yet.
 */
import pg from "pg";
import { expect, test } from "vitest";
import { postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import { startPostgres } from "../../support/private-postgres.ts";
import { startProxy } from "../../support/tcp-proxy.ts";
import { until } from "../../support/until.ts";

test("a connection that ends as it begins costs a try, and not the process", async () => {
  const postgres = await startPostgres();
  const proxy = await startProxy({ to: { port: postgres.port } });
  const pool = new pg.Pool({
    connectionString: proxy.url(postgres.url),
    application_name: "arriving",
    max: 1,
  });
  pool.on("error", () => {});
  const store = postgresStore({ pool, notify: false });
  proxy.stall("down");
  const reading = store.read({ tenant: "t", scope: "s", key: "k" }).catch((error: unknown) => error);
  const ended = async () =>
    (
      await postgres.admin(
        // Before it is idle it would be refused instead, which is another fault.
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'arriving' and state = 'idle'",
      )
    ).length > 0;
  await until(ended, { what: "the new connection is terminated" });
  await proxy.pass();
  // There are no tables: the next try has reached the server, which says so.
  expect(await reading).toMatchObject({ code: "schema-invalid" });
  await store.close();
  await pool.end();
});
