/** Statements of phases: what rides with BEGIN, and what rides with COMMIT. */
import { enqueueOfPhase } from "./delivery-statements.ts";
import { afterLease, leaseIsOwned, recordIsOwned } from "./lease-statements.ts";
import { sessionColumns } from "./session-statements.ts";
import { after, commitSettings, exactly, keyIs, type SqlNames } from "./sql-parts.ts";
import { template } from "./template.ts";
import { limits, timeInTransaction, transactionTime } from "./transaction-statements.ts";

export function phaseStatements(names: SqlNames) {
  return {
    openPhase: template("open_phase", openPhase(names)),
    advance: template("advance", advance(names)),
    advanceEnqueuing: template("advance_enqueuing", advance(names, true)),
    completePhase: template("complete_phase", completePhase(names)),
    completePhaseEnqueuing: template("complete_phase_enqueuing", completePhase(names, true)),
    dropLease: template("drop_lease", dropLease(names)),
  };
}

/** Reads nothing: a row looked at here would be in the transaction's snapshot, or, at SERIALIZABLE, in its conflicts. */
function openPhase({ serverLimits }: SqlNames): string {
  return `select ${transactionTime} as began, ${sessionColumns}${serverLimits ? `, ${limits}` : ""}`;
}

/**
 * Moves the owner's record. It is written as an INSERT that always conflicts: an UPDATE would read its way to the row,
 * and at SERIALIZABLE phases of different keys would then fail each other. Where the record is gone the row is
 * inserted, with an attempt that no owner has, and the statement raises.
 */
function move({ records }: SqlNames, set: Readonly<Record<string, string>>, from = "t"): string {
  const none = {
    operation: "''",
    state: "'expired'",
    fingerprint_version: "0",
    fingerprint: "''",
    attempt: "0",
    token: "@token::uuid",
    created_at: "t.at",
    finished_at: "t.at",
    forget_at: "t.at",
  };
  const row = { ...none, ...set };
  return `r as (
      insert into ${records} as r (tenant, scope, key, id, ${Object.keys(row).join(", ")})
      select @tenant::text, @scope::text, @key::text, @id::uuid, ${Object.values(row).join(", ")} from ${from}
      on conflict (tenant, scope, key) do update set
        ${Object.keys(set)
          .map((column) => `${column} = excluded.${column}`)
          .join(", ")}
      where ${recordIsOwned}
      returning r.attempt, r.expires_at, r.operation, r.fingerprint)`;
}

function insertStep({ steps }: SqlNames): string {
  return `s as (
      insert into ${steps} (record_id, name, tenant, scope, key, position, version, kind, state, result, finished_at)
      select @id::uuid, @name::text, @tenant::text, @scope::text, @key::text, @position::int, @version::text, 'phase',
        'finished', @result::bytea, t.at
      from t, r where r.attempt > 0
      returning 1)`;
}

/** Raises 22012 when the record was not moved: in a pipeline with COMMIT nothing less stops it. */
const written = "1 / (pg_catalog.count(*) filter (where r.attempt > 0))::int as written";

function timeIfSame(names: SqlNames): string {
  return `t as materialized (select ${timeInTransaction(names)} as at)`;
}

function advance(names: SqlNames, enqueuing = false): string {
  return `with ${timeIfSame(names)}, ${move(names, { recovery_point: "@name::text" })}, ${insertStep(names)}
      ${enqueuing ? `, ${enqueueOfPhase(names)}` : ""}
    select ${written}, ${commitSettings(names)} from r`;
}

/**
 * Above READ COMMITTED the lease cannot be deleted here, because heartbeats have changed it since the snapshot was
 * taken: it goes right after the COMMIT.
 */
function completePhase(names: SqlNames, enqueuing = false): string {
  const set = {
    recovery_point: "@name::text",
    state: "'completed'",
    answer: "@answer::bytea",
    response_schema_version: "1",
    last_error_code: "null",
    input: "null",
    finished_at: "t.at",
    expires_at: after("t.at", "retention_ms"),
    forget_at: after("t.at", "forget_after_ms"),
  };
  return `with ${timeIfSame(names)},
    gone as (
      delete from ${names.leases} l
      where pg_catalog.current_setting('transaction_isolation') = 'read committed' and ${keyIs("l")} and ${leaseIsOwned}
      returning 1),
    ${move(names, set, `t where ${afterLease}`)}, ${insertStep(names)} ${enqueuing ? `, ${enqueueOfPhase(names)}` : ""}
    select ${written}, ${exactly("pg_catalog.max(r.expires_at)")} as expires_at,
      (select pg_catalog.count(*)::int from gone) as leases, ${commitSettings(names)}
    from r`;
}

function dropLease({ leases }: SqlNames): string {
  return `delete from ${leases} l where ${keyIs("l")} and ${leaseIsOwned}`;
}
