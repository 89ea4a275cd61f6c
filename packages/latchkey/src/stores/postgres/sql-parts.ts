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

const messages = `case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning')
    then pg_catalog.set_config('client_min_messages', 'warning', true) end`;
const onDisk = `case when pg_catalog.current_setting('synchronous_commit') = 'off'
    then pg_catalog.set_config('synchronous_commit', 'on', true) end`;
