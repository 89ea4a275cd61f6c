/**
 * A check of `records` that knows every column of each state. The migrations have a shorter one, because Postgres reads a
 * check again for every statement. In the databases of tests and proofs this one is there too, so that a statement of ours
 * that writes a record of another shape fails at once.
 */
export function wholeShapes(schema = "latchkey"): string {
  return `alter table ${schema}.records add constraint records_whole_shape check (
    concat(state, ' ', answer is not null, finished_at is not null, expires_at is not null, forget_at is not null,
      reconcile_after is not null, input is not null) ~ '^(${shapes.join("|")})$'
    and forget_at >= expires_at and attempt >= 0)`;
}

/** The state, and for each of the six columns whether it has a value (t), has none (f), or may have one (.). */
const shapes = [
  "completed ttttff",
  "failed .tttff",
  "pending fftff.",
  "in_progress fftff.",
  "retryable ffff..",
  "unknown ffff..",
  "expired ft.tff",
];

/** Leaves the table as the migrations make it. */
export const onlyShortCheck = "alter table latchkey.records drop constraint records_whole_shape";
