import { randomUUID } from "node:crypto";
import { chmodSync, chownSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { copyTree } from "./postgres-cluster.ts";
import { type PostgresConf, PrivatePostgres } from "./private-postgres.ts";
import { serverUser } from "./scratch.ts";
import { until } from "./until.ts";

export interface StandbyOptions {
  /** The primary's commits wait for this standby. Default false. */
  synchronous?: boolean;
  /** Replicate through this proxy in front of the primary. Default: directly. */
  through?: { readonly port: number };
  conf?: PostgresConf;
}

/** What a standby makes for itself; copying these from a running server would be wrong or in vain. */
const NOT_COPIED = {
  folders: [
    "pg_dynshmem",
    "pg_notify",
    "pg_replslot",
    "pg_serial",
    "pg_snapshots",
    "pg_stat_tmp",
    "pg_subtrans",
    "pg_wal",
  ],
  files: ["postgresql.auto.conf", "postmaster.opts", "postmaster.pid"],
};

/** A hot standby with a replication slot of its own on the primary. */
export class Standby extends PrivatePostgres {
  readonly primary: PrivatePostgres;
  /** Its application_name and slot, as synchronous_standby_names and pg_stat_replication know it. */
  readonly name: string;

  /** Use `startStandby`. */
  constructor(primary: PrivatePostgres, name: string, options: StandbyOptions) {
    const port = options.through?.port ?? primary.port;
    super({
      version: primary.version,
      conf: {
        ...primary.conf,
        primary_conninfo: `host=127.0.0.1 port=${port} user=postgres application_name=${name}`,
        primary_slot_name: name,
        hot_standby: true,
        ...options.conf,
      },
    });
    this.primary = primary;
    this.name = name;
  }

  /** Waits until everything that the primary has written by now can be read here. */
  async untilCaughtUp(timeoutMs?: number): Promise<void> {
    const [row] = await this.primary.admin<{ lsn: string }>("select pg_current_wal_flush_lsn()::text as lsn");
    const replayed = () => this.admin("select 1 where pg_last_wal_replay_lsn() >= $1::pg_lsn", [row?.lsn]);
    await until(async () => (await replayed()).length > 0, {
      what: `standby ${this.name} has replayed ${row?.lsn}`,
      ...(timeoutMs !== undefined && { timeoutMs }),
    });
  }

  /** Waits until the primary reports this standby in that state of pg_stat_replication. */
  async untilReplicating(column: "state" | "sync_state", value: string): Promise<void> {
    const sql = `select 1 from pg_stat_replication where application_name = $1 and ${column} = $2`;
    await until(async () => (await this.primary.admin(sql, [this.name, value])).length > 0, {
      what: `standby ${this.name} has ${column} ${value}`,
    });
  }

  /** Makes it a primary of its own, which waits for no standby; returns when it takes writes. */
  async promote(): Promise<void> {
    await this.admin("select pg_promote(false)");
    await until(async () => (await this.admin("select 1 where not pg_is_in_recovery()")).length > 0, {
      what: `standby ${this.name} is promoted`,
    });
  }
}

/** Copies a running primary and starts the copy as its hot standby; returns once it is streaming. */
export async function startStandby(primary: PrivatePostgres, options: StandbyOptions = {}): Promise<Standby> {
  const name = `standby_${randomUUID().slice(0, 8)}`;
  const standby = new Standby(primary, name, options);
  try {
    await copyRunning(primary, standby);
    await standby.start();
    await standby.untilReplicating("state", "streaming");
    if (options.synchronous) {
      await primary.configure({ synchronous_standby_names: `FIRST 1 (${name})` });
      await standby.untilReplicating("sync_state", "sync");
    }
    return standby;
  } catch (error) {
    await standby.stop();
    throw error;
  }
}

/**
 * A base backup by the server's low-level functions, because npm's installations have no pg_basebackup. The
 * missing WAL comes over replication: the slot keeps it from before the backup's start.
 */
async function copyRunning(primary: PrivatePostgres, standby: Standby): Promise<void> {
  const session = new pg.Client({ ...primary.connection, host: primary.socketDir });
  session.on("error", () => {});
  await session.connect();
  try {
    await session.query("select pg_create_physical_replication_slot($1, true)", [standby.name]);
    await session.query("select pg_backup_start($1, true)", [standby.name]);
    ownedFolder(standby.dataDir);
    for (const folder of NOT_COPIED.folders) ownedFolder(join(standby.dataDir, folder));
    const left = new Set([...NOT_COPIED.folders, ...NOT_COPIED.files]);
    const entries = readdirSync(primary.dataDir).filter((entry) => !left.has(entry));
    await copyTree(
      entries.map((entry) => join(primary.dataDir, entry)),
      standby.dataDir,
    ).catch(unlessVanished);
    const { rows } = await session.query<{ labelfile: string }>(
      "select labelfile from pg_backup_stop(false)",
    );
    ownedFile(join(standby.dataDir, "backup_label"), rows[0]?.labelfile ?? "");
    ownedFile(join(standby.dataDir, "standby.signal"), "");
    ownedFile(join(standby.dataDir, "postgresql.auto.conf"), "");
  } finally {
    await session.end();
  }
}

/** Files that the running server has just deleted need no copy: replaying the WAL deletes them too. */
function unlessVanished(error: Error & { stderr?: string }): void {
  const complaints = (error.stderr ?? "").trim().split("\n");
  if (!complaints.every((line) => line.endsWith("No such file or directory"))) throw error;
}

function ownedFile(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600 });
  own(path);
}

function ownedFolder(path: string): void {
  mkdirSync(path);
  chmodSync(path, 0o700);
  own(path);
}

function own(path: string): void {
  const user = serverUser();
  if (user) chownSync(path, user.uid, user.gid);
}
