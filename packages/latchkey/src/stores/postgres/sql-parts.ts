/** Pieces that the statements share. Functions are qualified, so that no `search_path` can put others in their place. */

export interface SqlNames {
  /** Qualified table names. */
  readonly records: string;
  readonly leases: string;
  readonly settings: string;
  /** The call that tells the store's time. */
  readonly clock: string;
  /** Whether a COMMIT must be on disk before it is acknowledged. */
  readonly synced: boolean;
  /** Whether the server ends transactions and statements that last too long. */
  readonly serverLimits: boolean;
}

/** The store's time once per statement. In predicates it must come from a sub-select, or no index is used. */
export function timeOf({ clock }: SqlNames): string {
  return `t as materialized (select ${clock} as at)`;
}

export function keyIs(alias: string): string {
  return `${alias}.tenant = @tenant::text and ${alias}.scope = @scope::text and ${alias}.key = @key::text`;
}

/** The record is exactly the version that was decided on. */
export const guardHolds =
  "r.id = @guard_id::uuid and r.state = @guard_state::text and r.attempt = @guard_attempt::int " +
  "and r.token = @guard_token::uuid";

/** Where a new life may begin over an old one, whatever the guard says. */
export const mayBeginOver =
  "(r.state = 'expired' or (r.state in ('completed', 'failed') and r.expires_at <= (select at from t)))";

export function milliseconds(time: string): string {
  return `pg_catalog.floor(extract(epoch from ${time}) * 1000)::float8`;
}

export function after(time: string, parameter: string): string {
  return `${time} + @${parameter}::float8 * interval '1 millisecond'`;
}

/**
 * For the transaction that it runs in: warnings reach the client, as a cancelled wait for synchronous replication is
 * one, and `synchronous_commit = off` does not acknowledge what a crash can take back.
 */
export function commitSettings({ synced }: SqlNames): string {
  const messages = "pg_catalog.set_config('client_min_messages', 'warning', true) as commit_messages";
  if (!synced) return messages;
  return `${messages}, case when pg_catalog.current_setting('synchronous_commit') = 'off'
    then pg_catalog.set_config('synchronous_commit', 'on', true) end as commit_synced`;
}

/** A record as `recordOf` reads it, from `r` and its lease `l`. */
export const recordColumns = `
  r.tenant, r.scope, r.key, r.id::text as id, r.operation, r.state, r.principal, r.attempt, r.last_error_code,
  r.fingerprint_version::int as fingerprint_version, pg_catalog.encode(r.fingerprint, 'hex') as fingerprint,
  pg_catalog.encode(pg_catalog.uuid_send(r.token), 'hex') as token, pg_catalog.encode(r.answer, 'hex') as answer,
  ${["created_at", "finished_at", "expires_at", "forget_at", "reconcile_after"]
    .map((column) => `${milliseconds(`r.${column}`)} as ${column}`)
    .join(", ")},
  ${milliseconds("l.locked_until")} as lease_ends_at`;

/** The lease that belongs to the record's present attempt; one left by another attempt counts for nothing. */
export const leaseOfRecord =
  "l.tenant = r.tenant and l.scope = r.scope and l.key = r.key and l.record_id = r.id and l.token = r.token";
