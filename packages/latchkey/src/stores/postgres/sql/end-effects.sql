-- A send is counted as returned once: if there is a result, it was counted when that was kept. The state that this writes
-- leaves the columns of a claim only to `keep_result`.
-- It was started under this claim, and nothing was sent. A start does not change an earlier doubt.
-- The column `claimed_at` means the same as `state = 'claimed'`, but keeps the planner on the primary key: the index of
-- claimed rows may be full of dead ones. A plain `is not null` would not: where the statistics are of a moment without
-- claims, the planner expects no row and reads the whole table for each end.
with t as materialized (select pg_catalog.clock_timestamp() as at),
o as (
  update latchkey.outbox o
  set state = case c.event when 'keep_result' then 'claimed' when 'deliver' then 'delivered' when 'die' then
    'dead' else 'pending' end, ended = case when c.event <> 'keep_result' then c.event end,
    claimed_at = case when c.event = 'keep_result' then o.claimed_at end,
    locked_until = case when c.event = 'keep_result' then o.locked_until end,
    started_at = case when c.event = 'keep_result' then o.started_at end,
    result = coalesce(pg_catalog.decode(c.result, 'hex'), o.result), returns = case when o.result is null
    and o.started_at is not null and c.unsent is not true
    and (c.returned or c.event in ('deliver', 'keep_result')) then o.returns + 1 else o.returns end,
    available_at = case c.event when 'retry' then t.at + c.after_ms * interval '1 millisecond' when 'reopen'
    then t.at else o.available_at end, sends = o.sends -
    (c.unsent is true and o.started_at is not null)::int, doubtful_since = case when c.event = 'reopen'
    or ((c.unsent is true and o.started_at is not null) and c.doubtful is not true) then null when c.event =
    'retry' then case when c.doubtful then coalesce(o.doubtful_since, t.at) end else o.doubtful_since end,
    generation = o.generation + (c.event = 'reopen')::int,
    downstream_key = coalesce(c.downstream_key, o.downstream_key),
    last_error_code = coalesce(c.error_code, o.last_error_code),
    finished_at = case when c.event in ('deliver', 'die') then t.at end,
    expires_at = case when c.event = 'deliver' then t.at + c.keep_ms * interval '1 millisecond' end
  from pg_catalog.jsonb_to_recordset(:'ends'::text::jsonb) as c(id uuid, attempt int, token uuid, event text,
      result text, keep_ms float8, error_code text, after_ms float8, doubtful boolean, returned boolean,
      downstream_key text, unsent boolean), t
  where o.id = c.id and o.attempt = c.attempt and o.token = c.token
    and coalesce(o.claimed_at, '-infinity') > '-infinity'
    and (c.event <> 'give_back' or c.unsent or o.started_at is null)
  returning o.id)
select o.id::text as id,
  (select case when pg_catalog.current_setting('client_min_messages') not in ('notice', 'warning') then
      pg_catalog.set_config('client_min_messages', 'warning', true) end) as commit_messages/*[synced*/,
  (select case when pg_catalog.current_setting('synchronous_commit') = 'off' then
      pg_catalog.set_config('synchronous_commit', 'on', true) end) as commit_synced/*]*/
from o;
