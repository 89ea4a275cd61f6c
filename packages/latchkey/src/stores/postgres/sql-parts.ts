/** Pieces that the statements share. Functions are qualified, so that no `search_path` can replace them. */

export interface SqlNames {
  /** Qualified table names. */
  readonly records: string;
  readonly leases: string;
  readonly steps: string;
  readonly outbox: string;
  readonly messages: string;
  readonly audit: string;
  readonly early: string;
  readonly facts: string;
  readonly settings: string;
  /** The call that returns the store's time. */
  readonly clock: string;
  /** Whether a COMMIT must be on disk before it is acknowledged. */
  readonly synced: boolean;
  /** Whether the server ends transactions and statements that last too long. */
  readonly serverLimits: boolean;
}

/** Whether a standby answers, and whether COMMITs of this server wait for one. */
export function whereRead(names: SqlNames): string {
  return `pg_catalog.pg_is_in_recovery() as standby, ${standbys(names)}`;
}

/** Whether COMMITs of this server wait for a standby. */
function standbys({ synced }: SqlNames): string {
  return `${synced ? "pg_catalog.current_setting('synchronous_standby_names') <> ''" : "false"} as standbys`;
}

/** As `momentOf` reads it: exact, and the same under all settings of a session. */
export function exactly(time: string): string {
  return `pg_catalog.encode(pg_catalog.timestamptz_send(${time}), 'hex')`;
}

/**
 * For the transaction in which it runs: warnings reach the client, because a cancelled wait for synchronous replication is
 * one, and COMMIT waits for the disk even under `synchronous_commit = off`.
 */
export function commitSettings({ synced }: Pick<SqlNames, "synced">): string {
  return synced
    ? `${messages} as commit_messages, ${onDisk} as commit_synced`
    : `${messages} as commit_messages`;
}

/** The same for a statement of many rows, evaluated once instead of for each row. */
export function commitSettingsOnce({ synced }: SqlNames): string {
  const once = `(select ${messages}) as commit_messages`;
  return synced ? `${once}, (select ${onDisk}) as commit_synced` : once;
}

const messages = `case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning')
    then pg_catalog.set_config('client_min_messages', 'warning', true) end`;
const onDisk = `case when pg_catalog.current_setting('synchronous_commit') = 'off'
    then pg_catalog.set_config('synchronous_commit', 'on', true) end`;

/** The record `r` as `recordOf` reads it. */
export const recordColumn = "pg_catalog.encode(pg_catalog.record_send(r), 'hex') as record";
