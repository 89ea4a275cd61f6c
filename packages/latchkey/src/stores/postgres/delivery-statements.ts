/** Statements of effects that ride with COMMIT: what a transaction or a phase enqueues, and the end of a delivery. */
import { after, commitSettings, guardHolds, keyIs, type SqlNames } from "./sql-parts.ts";
import { template } from "./template.ts";
import { timeInTransaction } from "./transaction-statements.ts";

export function deliveryStatements(names: SqlNames) {
  return {
    enqueue: template("enqueue", enqueue(names)),
    /** A service that is not traced sends no parameter for it. */
    enqueueTraced: template("enqueue_traced", enqueue(names, ", trace", ", @trace::text")),
    finishEffect: template("finish_effect", finishEffect(names)),
    answerByEffect: template("answer_by_effect", answerByEffect(names)),
  };
}

const effectColumns = `id, aggregatetype, aggregateid, type, payload, tenant, scope, key, record_id, fingerprint, step,
  index, downstream_key, aggregate, ordered, available_at, created_at`;

/** Goes before the statement that completes the record, which raises when this is another transaction. */
function enqueue({ outbox, clock }: SqlNames, column = "", value = ""): string {
  return `insert into ${outbox} (${effectColumns}${column})
    select @effect_id::uuid, @effect::text, coalesce(@aggregate::text, @downstream_key::text), @operation::text,
      @effect_input::bytea, @tenant::text, @scope::text, @key::text, @id::uuid, @fingerprint::bytea, @step::text,
      @index::int, @downstream_key::text, @aggregate::text, @ordered::boolean, ${after("t.at", "delay_ms")}, t.at${value}
    from (select ${clock} as at offset 0) t`;
}

/** For the statement of a phase, which has moved the record `r`: that one alone knows its operation and fingerprint. */
export function enqueueOfPhase({ outbox }: SqlNames): string {
  return `enqueued as (
      insert into ${outbox} (${effectColumns}, trace)
      select e.effect_id, e.effect, coalesce(e.aggregate, e.downstream_key), r.operation,
        pg_catalog.decode(e.input, 'hex'), @tenant::text, @scope::text, @key::text, @id::uuid, r.fingerprint, e.step,
        e.index, e.downstream_key, e.aggregate, e.ordered, t.at + e.delay_ms * interval '1 millisecond', t.at,
        e.trace
      from t, r, pg_catalog.json_to_recordset(@effects::text::json) as e(effect_id uuid, effect text,
        downstream_key text, step text, index int, aggregate text, ordered boolean, input text, delay_ms float8, trace text)
      where r.attempt > 0
      order by e.index
      returning 1)`;
}

/** The effect whose delivery ends, with the result that was kept. */
function delivered(names: SqlNames): string {
  return `t as materialized (select ${timeInTransaction(names)} as at),
    e as (
      update ${names.outbox} o set state = 'delivered', ended = 'deliver', claimed_at = null, locked_until = null,
        started_at = null, finished_at = t.at, expires_at = ${after("t.at", "keep_ms")},
        returns = case when o.result is null and o.started_at is not null then o.returns + 1
          else o.returns end
      from t where o.id = @effect_id::uuid and o.claimed_at is not null and o.attempt = @claim_attempt::int
        and o.token = @claim_token::uuid
      returning 1)`;
}

/** Raises 22012 when the claim no longer holds: in a pipeline with COMMIT nothing less stops it. */
function finishEffect(names: SqlNames): string {
  return `with ${delivered(names)} select 1 / pg_catalog.count(*)::int as written, ${commitSettings(names)} from e`;
}

/** Also when the record is not that version any more. */
function answerByEffect(names: SqlNames): string {
  return `with ${delivered(names)},
    r as (
      update ${names.records} r set state = 'completed', answer = @answer::bytea, response_schema_version = 1,
        last_error_code = null, input = null, reconcile_after = null, finished_at = t.at,
        expires_at = ${after("t.at", "retention_ms")}, forget_at = ${after("t.at", "forget_after_ms")}
      from t where ${keyIs("r")} and ${guardHolds} and r.state = 'retryable'
      returning 1)
    select 1 / (pg_catalog.count(*) * (select pg_catalog.count(*) from r))::int as written, ${commitSettings(names)}
    from e`;
}
