/** Statements of attempts under a lease: beginning, taking over, renewing, ending. Each is one atomic step. */
import {
  after,
  commitSettings,
  exactly,
  guardHolds,
  keyIs,
  mayBeginOver,
  type SqlNames,
  timeOf,
} from "./sql-parts.ts";
import { template } from "./template.ts";

export function leaseStatements(names: SqlNames) {
  return {
    create: template("create", begin(names, "in_progress", "insert", false)),
    createOver: template("create_over", begin(names, "in_progress", "update", false)),
    accept: template("accept", begin(names, "pending", "insert", false)),
    acceptOver: template("accept_over", begin(names, "pending", "update", false)),
    // A service that is not traced sends no parameter for it.
    createTraced: template("create_traced", begin(names, "in_progress", "insert", true)),
    createOverTraced: template("create_over_traced", begin(names, "in_progress", "update", true)),
    acceptTraced: template("accept_traced", begin(names, "pending", "insert", true)),
    acceptOverTraced: template("accept_over_traced", begin(names, "pending", "update", true)),
    takeOverRetryable: template("take_over_retryable", takeOver(names, "retryable")),
    takeOverEnded: template("take_over_ended", takeOver(names, "in_progress")),
    renew: template("renew", renew(names)),
    finish: template("finish", finish(names)),
    park: template("park", park(names)),
    release: template("release", release(names)),
    giveUp: template("give_up", giveUp(names)),
  };
}

type BeginState = "in_progress" | "pending";

/** `create` and `accept`: a row where there is none, or over exactly the row that was decided on. */
function begin(names: SqlNames, state: BeginState, how: "insert" | "update", isTraced: boolean): string {
  const row = how === "insert" ? insertRow(names, state, isTraced) : updateRow(names, state, isTraced);
  const lease = state === "in_progress" ? `, l as (${putLease(names, begunLease)})` : "";
  const steps = how === "update" ? `, gone as (${withoutSteps(names)})` : "";
  return `with ${timeOf(names)}, r as (${row})${lease}${steps}
    select ${exactly("r.created_at")} as created_at, ${exactly("r.expires_at")} as expires_at,
      ${state === "in_progress" ? `${exactly("l.locked_until")} as lease_ends_at,` : ""}
      ${commitSettings(names)}
    from r ${state === "in_progress" ? ", l" : ""}`;
}

/** Looking first keeps a duplicate from waiting behind a transaction that has changed the row. */
function insertRow({ records }: SqlNames, state: BeginState, isTraced: boolean): string {
  return `insert into ${records} (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint,
      principal, attempt, token, input, addressable, summary, created_at, expires_at${isTraced ? ", trace" : ""})
    select @tenant::text, @scope::text, @key::text, @id::uuid, @operation::text, '${state}',
      @fingerprint_version::smallint, @fingerprint::bytea, @principal::text, @attempt::int, @token::uuid,
      @input::bytea, @addressable::boolean, @summary::bytea, t.at, ${after("t.at", "expires_after_ms")}
      ${isTraced ? ", @trace::text" : ""}
    from t where not exists (select 1 from ${records} x where ${keyIs("x")})
    on conflict (tenant, scope, key) do nothing
    returning created_at, expires_at`;
}

function updateRow({ records }: SqlNames, state: BeginState, isTraced: boolean): string {
  return `update ${records} r set
      id = @id::uuid, operation = @operation::text, state = '${state}',
      fingerprint_version = @fingerprint_version::smallint, fingerprint = @fingerprint::bytea,
      principal = @principal::text, attempt = @attempt::int, token = @token::uuid,
      recovery_point = null, input = @input::bytea, addressable = @addressable::boolean, summary = @summary::bytea,
      trace = ${isTraced ? "@trace::text" : "null"}, answer = null, response_schema_version = null,
      last_error_code = null, reconcile_tries = 0, created_at = t.at, finished_at = null,
      expires_at = ${after("t.at", "expires_after_ms")}, forget_at = null, reconcile_after = null
    from t where ${keyIs("r")} and ${guardHolds} and ${mayBeginOver}
    returning r.created_at, r.expires_at`;
}

/** The steps of the life that was there before. */
function withoutSteps({ steps }: SqlNames): string {
  return `delete from ${steps} s where s.record_id = @guard_id::uuid and exists (select 1 from r) returning 1`;
}

const begunLease = { operation: "@operation::text", attempt: "@attempt::int" };

/** For the row that `r` has written. */
function putLease(
  { leases }: SqlNames,
  of: { readonly operation: string; readonly attempt: string },
): string {
  const values = {
    record_id: "@id::uuid",
    ...of,
    token: "@token::uuid",
    locked_until: after("t.at", "lease_ms"),
    lease_end: "@lease_end::text",
    attempts_max: "@attempts_max::int",
    abandon_at: "r.expires_at",
  };
  const columns = Object.keys(values);
  return `insert into ${leases} (tenant, scope, key, ${columns.join(", ")})
    select @tenant::text, @scope::text, @key::text, ${Object.values(values).join(", ")} from r, t
    on conflict (tenant, scope, key) do update set
      ${columns.map((column) => `${column} = excluded.${column}`).join(", ")}
    returning locked_until`;
}

/** The lease row of the guarded attempt, locked, if its time is over. A transaction that holds the lock is changing the record. */
function endedLease({ leases }: SqlNames): string {
  return `lease as materialized (
      select 1 from ${leases} l where ${keyIs("l")} and ${leaseIsGuarded("l")}
        and l.locked_until <= (select at from t)
      for update skip locked)`;
}

function leaseIsGuarded(alias: string): string {
  return `${alias}.record_id = @guard_id::uuid and ${alias}.attempt = @guard_attempt::int
    and ${alias}.token = @guard_token::uuid`;
}

/** An attempt without any lease row has no lease that could still run. */
function leaseHasEnded({ leases }: SqlNames): string {
  return `(exists (select 1 from lease)
    or not exists (select 1 from ${leases} x where ${keyIs("x")} and ${leaseIsGuarded("x")}))`;
}

/** Locks the lease, then the record, and waits for neither. */
function takeOver(names: SqlNames, from: "retryable" | "in_progress"): string {
  const { records } = names;
  const ended = from === "in_progress";
  return `with ${timeOf(names)}, ${ended ? `${endedLease(names)},` : ""}
    free as materialized (
      select r.ctid as row_id from ${records} r
      where ${keyIs("r")} and ${guardHolds} and r.state = '${from}'
        and r.fingerprint_version = @fingerprint_version::smallint and r.fingerprint = @fingerprint::bytea
        ${ended ? `and ${leaseHasEnded(names)}` : ""}
      for update skip locked),
    r as (
      update ${records} r set state = 'in_progress', attempt = r.attempt + 1, token = @token::uuid,
        expires_at = ${after("r.created_at", "expires_after_ms")}, last_error_code = null, reconcile_after = null
      where r.ctid = any (array(select row_id from free)) and ${keyIs("r")} and ${guardHolds}
      returning r.*),
    l as (${putLease(names, { operation: "r.operation", attempt: "r.attempt" })})
    select r.operation, r.principal, r.attempt, r.trace, ${exactly("r.created_at")} as created_at,
      ${exactly("r.expires_at")} as expires_at, ${exactly("l.locked_until")} as lease_ends_at,
      ${commitSettings(names)}
    from r, l`;
}

function renew({ leases, ...names }: SqlNames): string {
  return `with ${timeOf({ leases, ...names })}
    update ${leases} l set locked_until = ${after("t.at", "lease_ms")}
    from t where ${keyIs("l")} and ${leaseIsOwned} and l.locked_until > t.at
    returning 1 as renewed`;
}

export const leaseIsOwned =
  "l.record_id = @id::uuid and l.attempt = @attempt::int and l.token = @token::uuid";

export const recordIsOwned =
  "r.id = @id::uuid and r.state = 'in_progress' and r.attempt = @attempt::int and r.token = @token::uuid";

/** Deletes the owner's lease before its record is touched: the order in which everybody locks the two. */
function withoutLease({ leases }: SqlNames): string {
  return `gone as (delete from ${leases} l where ${keyIs("l")} and ${leaseIsOwned} returning 1)`;
}

export const afterLease = "(select pg_catalog.count(*) from gone) is not null";

function finish(names: SqlNames): string {
  return `with ${timeOf(names)}, ${withoutLease(names)},
    r as (
      update ${names.records} r set state = @state::text, answer = @answer::bytea, response_schema_version = 1,
        last_error_code = @error_code::text, input = null, finished_at = t.at,
        expires_at = ${after("t.at", "retention_ms")}, forget_at = ${after("t.at", "forget_after_ms")}
      from t where ${keyIs("r")} and ${recordIsOwned} and ${afterLease}
      returning r.expires_at)
    select ${exactly("r.expires_at")} as expires_at, ${commitSettings(names)} from r`;
}

/** `retryable` or `unknown`: the attempt is over, the life is not. */
function park(names: SqlNames): string {
  return `with ${timeOf(names)}, ${withoutLease(names)},
    r as (
      update ${names.records} r set state = @state::text, last_error_code = @error_code::text,
        expires_at = null, reconcile_after = ${after("t.at", "reconcile_after_ms")}
      from t where ${keyIs("r")} and ${recordIsOwned} and ${afterLease}
      returning 1)
    select 1 as parked, ${commitSettings(names)} from r`;
}

function release(names: SqlNames): string {
  return `with ${withoutLease(names)},
    r as (
      delete from ${names.records} r where ${keyIs("r")} and ${recordIsOwned} and ${afterLease}
      returning r.id),
    s as (
      delete from ${names.steps} s where s.record_id = any (array(select id from r))
      returning 1),
    f as (
      delete from ${names.facts} f where ${keyIs("f")} and exists (select 1 from r)
      returning 1)
    select 1 as released, ${commitSettings(names)} from r`;
}

function giveUp(names: SqlNames): string {
  const { records, leases } = names;
  return `with ${timeOf(names)}, ${endedLease(names)},
    free as materialized (
      select r.ctid as row_id from ${records} r
      where ${keyIs("r")} and ${guardHolds} and r.state = 'in_progress' and ${leaseHasEnded(names)}
      for update skip locked),
    r as (
      update ${records} r set state = 'unknown', last_error_code = @error_code::text, expires_at = null,
        reconcile_after = ${after("t.at", "reconcile_after_ms")}
      from t where r.ctid = any (array(select row_id from free)) and ${keyIs("r")} and ${guardHolds}
      returning 1),
    gone as (
      delete from ${leases} l where ${keyIs("l")} and ${leaseIsGuarded("l")} and exists (select 1 from r)
      returning 1)
    select 1 as given_up, (select pg_catalog.count(*)::int from gone) as leases, ${commitSettings(names)} from r`;
}
