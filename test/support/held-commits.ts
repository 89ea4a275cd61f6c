/** A Postgres whose COMMITs are written, but not confirmed to clients. */
import pg from "pg";
import type { PrivatePostgres } from "./private-postgres.ts";
import { until } from "./until.ts";

/**
 * After it returns, every COMMIT waits for a standby that does not exist, until `letCommitsGo` or until the server is killed.
 * A reload alone would not do: each process notices it at a different time, and COMMITs of the next milliseconds would still
 * be confirmed.
 */
export async function holdCommits(postgres: PrivatePostgres): Promise<void> {
  await postgres.configure({ synchronous_standby_names: "nobody" });
  await until(() => isHeld(postgres), { what: "a COMMIT waits" });
}

export async function letCommitsGo(postgres: PrivatePostgres): Promise<void> {
  await postgres.configure({ synchronous_standby_names: "" });
}

/** Commits something to see whether it waits, then ends that wait. */
async function isHeld(postgres: PrivatePostgres): Promise<boolean> {
  const probe = new pg.Client({ ...postgres.connection });
  probe.on("error", () => {});
  await probe.connect();
  try {
    const { rows } = await probe.query("select pg_backend_pid() as pid");
    const values = [rows[0].pid];
    let isOver = false;
    const commit = probe.query("select pg_logical_emit_message(true, 'held-commits', '')").finally(() => {
      isOver = true;
    });
    const waiting =
      "select pg_cancel_backend(pid) from pg_stat_activity where pid = $1 and wait_event = 'SyncRep'";
    const cancelled = async () => (await postgres.admin(waiting, values)).length > 0;
    const held = await until(async () => ((await cancelled()) ? "held" : isOver && "passed"));
    await commit;
    return held === "held";
  } finally {
    await probe.end();
  }
}
