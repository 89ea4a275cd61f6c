/** Statements of `transaction` execution: what rides with BEGIN, what rides with COMMIT, and what settles a doubt. */
import { sessionColumns } from "./session-statements.ts";
import {
  after,
  commitSettings,
  exactly,
  guardHolds,
  keyIs,
  leaseOfRecord,
  mayBeginOver,
  recordColumn,
  recordColumns,
  type SqlNames,
  timeOf,
  whereRead,
} from "./sql-parts.ts";
import { template } from "./template.ts";

export function transactionStatements(names: SqlNames) {
  return {
    read: template("read", read(names)),
    look: template("look", look(names)),
    open: template("open", open(names)),
    savepoint: template("savepoint", "savepoint latchkey_handler"),
    undo: template("undo", "rollback to savepoint latchkey_handler"),
    complete: template("complete", complete(names, lifeColumns)),
    completeOver: template("complete_over", completeOver(names, { ...lifeColumns, trace: "null" })),
    // A service that is not traced sends no parameter for it.
    completeTraced: template("complete_traced", complete(names, tracedColumns)),
    completeOverTraced: template("complete_over_traced", completeOver(names, tracedColumns)),
    lose: template("lose", lose(names)),
    waitSettings: template("wait_settings", waitSettings(names)),
    waitLock: template(
      "wait_lock",
      "select 1 as held from pg_catalog.pg_advisory_xact_lock(@lock::text::bigint)",
    ),
    barrier: template(
      "barrier",
      "select pg_catalog.pg_logical_emit_message(true, 'latchkey', '')::text as lsn",
    ),
  };
}

/** One row always: the time, and the record if there is one. */
function read(names: SqlNames): string {
  return `select ${exactly("t.at")} as now, ${whereRead(names)}, ${recordColumns}
    from (select ${names.clock} as at) t
    left join ${names.records} r on ${keyIs("r")}
    left join ${names.leases} l on ${leaseOfRecord}`;
}

/** Names the transaction. */
export const transactionTime = exactly("pg_catalog.now()");

/** `read` without the lease. The sub-select costs half of a join, and the second table as much again. */
function look(names: SqlNames): string {
  const { records, clock } = names;
  return `select ${exactly(clock)} as now, ${whereRead(names)},
    (select ${recordColumn} from ${records} r where ${keyIs("r")}) as record`;
}

/**
 * Locks the key without waiting. The look-up must be another statement: the snapshot of this one is older than its
 * lock.
 */
function open({ serverLimits }: SqlNames): string {
  return `select pg_catalog.pg_try_advisory_xact_lock(@lock::text::bigint) as exclusive,
    ${transactionTime} as began, ${sessionColumns}${serverLimits ? `, ${limits}` : ""}`;
}

/**
 * Bounds how long a dead or stuck process can keep the key: when idle, and in a statement that outlives its caller. A
 * lower limit of the user's own stays.
 */
export const limits = `
  ${limit("idle_in_transaction_session_timeout")} as idle_limit, ${limit("statement_timeout")} as statement_limit`;

function limit(name: string): string {
  const present = `pg_catalog.current_setting('${name}')`;
  return `pg_catalog.set_config('${name}', case
    when ${present}::interval between interval '1 millisecond' and @limit_ms::text::float8 * interval '1 millisecond'
    then ${present} else @limit_ms::text end, true)`;
}

/**
 * The time. Raises 2201F when this is not the transaction that admission opened: in a statement that is pipelined with
 * COMMIT nothing less than an error stops the COMMIT. The condition and the root depend on the transaction, so that the
 * planner evaluates neither beforehand.
 */
export function timeInTransaction({ clock }: SqlNames): string {
  return `case when ${transactionTime} = @began::text then ${clock}
    else pg_catalog.to_timestamp(pg_catalog.sqrt(- pg_catalog.date_part('epoch', pg_catalog.now()))) end`;
}

/** A transaction may also complete, or lose, the next run of the very life that waited for it. */
const mayEndOver = `(${mayBeginOver} or (r.state = 'retryable' and r.id = excluded.id
  and r.fingerprint_version = excluded.fingerprint_version and r.fingerprint = excluded.fingerprint))`;

const lifeColumns = {
  id: "@id::uuid",
  operation: "@operation::text",
  fingerprint_version: "@fingerprint_version::smallint",
  fingerprint: "@fingerprint::bytea",
  principal: "@principal::text",
  attempt: "@attempt::int",
  token: "@token::uuid",
  summary: "@summary::bytea",
};

const tracedColumns = { ...lifeColumns, trace: "@trace::text" };

/** What a life that goes on keeps. */
const kept = ["created_at", "recovery_point", "reconcile_tries", "input", "addressable", "summary", "trace"];

/**
 * Writes a whole life at once: where no row is, or over exactly the row that was decided on.
 *
 * @param columns all of a life's
 * @param whereNone the attempt of a row that is written where none is
 */
function upsert(
  { records }: SqlNames,
  columns: Readonly<Record<string, string>>,
  whereNone = lifeColumns.attempt,
): string {
  const all = {
    recovery_point: "null",
    reconcile_tries: "0",
    addressable: "false",
    ...columns,
    attempt: whereNone,
  };
  const rest = ["input", "answer", "response_schema_version", "finished_at"];
  const cleared = [...rest, "expires_at", "forget_at", "reconcile_after"].filter(
    (column) => !(column in all),
  );
  return `insert into ${records} as r (tenant, scope, key, created_at, ${Object.keys(all).join(", ")})
    select @tenant::text, @scope::text, @key::text, t.at, ${Object.values(all).join(", ")} from t
    on conflict (tenant, scope, key) do update set
      ${["created_at", ...Object.keys(all)].map((column) => `${column} = ${overwriting(column)}`).join(", ")},
      ${cleared.map((column) => `${column} = null`).join(", ")}
    where ${guardHolds} and ${mayEndOver}
    returning r.created_at, r.expires_at, r.attempt, r.trace`;
}

function overwriting(column: string): string {
  if (column === "attempt") return lifeColumns.attempt;
  return kept.includes(column)
    ? `case when r.id = excluded.id then r.${column} else excluded.${column} end`
    : `excluded.${column}`;
}

/** The steps of the life that `w` has replaced, if it was another. */
function withoutSteps({ steps }: SqlNames): string {
  return `gone as (
      delete from ${steps} s where s.record_id = @guard_id::uuid and @guard_id::uuid <> @id::uuid
        and exists (select 1 from w) returning 1)`;
}

const completedColumns = {
  state: "'completed'",
  answer: "@answer::bytea",
  response_schema_version: "1",
  finished_at: "t.at",
  expires_at: after("t.at", "retention_ms"),
  forget_at: after("t.at", "forget_after_ms"),
};

/** Where no row is. One that is there all the same raises 23505: half the price of an upsert that does nothing. */
function complete(names: SqlNames, life: Readonly<Record<string, string>>): string {
  const all = { ...life, ...completedColumns };
  return `insert into ${names.records} (tenant, scope, key, created_at, ${Object.keys(all).join(", ")})
    select @tenant::text, @scope::text, @key::text, t.at, ${Object.values(all).join(", ")}
    from (select ${timeInTransaction(names)} as at offset 0) t
    returning ${exactly("expires_at")} as expires_at, ${commitSettings(names)}`;
}

/**
 * Over the row that was decided on. Raises 22012 when it was not, which would not stop the COMMIT either; also where that
 * row is gone, for its life may have come to its end and been forgotten: the upsert has then inserted an attempt that
 * nobody has.
 */
function completeOver(names: SqlNames, life: Readonly<Record<string, string>>): string {
  const row = upsert(names, { ...life, ...completedColumns, last_error_code: "null" }, "0");
  return `with t as materialized (select ${timeInTransaction(names)} as at), w as (${row}), ${withoutSteps(names)}
    select 1 / (pg_catalog.count(*) filter (where w.attempt > 0))::int as written,
      ${exactly("pg_catalog.max(w.expires_at)")} as expires_at,
      ${commitSettings(names)}
    from w`;
}

function lose(names: SqlNames): string {
  const row = upsert(names, {
    ...tracedColumns,
    state: "'unknown'",
    last_error_code: "@error_code::text",
    input: "@input::bytea",
    addressable: "@addressable::boolean",
  });
  return `with ${timeOf(names)}, w as (${row}), ${withoutSteps(names)}
    select ${exactly("w.created_at")} as created_at, w.trace, ${commitSettings(names)} from w`;
}

function waitSettings(names: SqlNames): string {
  return `select ${limit("lock_timeout")} as lock_limit,
    ${commitSettings(names)}`;
}
