/** Mistakes in the statements on Postgres, and in what is believed of a COMMIT. */
import type { Bug, Change } from "./bug.ts";

/** In every statement of a file that has it. */
function inFiles(find: string, replace: string): Change {
  const last = ".replaceAll(defaultTimeFunction, () => names.clock);";
  return {
    file: "stores/postgres/statements/statement.ts",
    find: last,
    replace: `.replaceAll(${JSON.stringify(find)}, ${JSON.stringify(replace)})${last}`,
  };
}

export const postgresBugs: readonly Bug[] = [
  {
    name: "the last write of a transaction affects no row, and COMMIT succeeds",
    recreates: null,
    changes: [
      inFiles(
        "select 1 / (pg_catalog.count(*) filter (where w.attempt > 0))::int as written, pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.max(w.expires_at)), 'hex') as expires_at,",
        "select pg_catalog.count(*)::int as written, pg_catalog.encode(pg_catalog.timestamptz_send(coalesce(pg_catalog.max(w.expires_at), pg_catalog.now())), 'hex') as expires_at,",
      ),
    ],
    tiers: ["P4", "P3"],
  },
  {
    name: "the finished record is inserted where one is already: nothing happens, and COMMIT succeeds",
    recreates: null,
    changes: [
      {
        file: "stores/postgres/statements/statement.ts",
        find: "return template(kind, own);",
        replace:
          'return template(kind, /^complete(_traced)?$/.test(kind) ? own.replace(/^insert into \\S+ /, "$&as r ").replace(" offset 0) t returning", " offset 0) t on conflict (tenant, scope, key) do update set operation = r.operation returning") : own);',
      },
    ],
    tiers: ["P4", "P3"],
  },
  {
    name: "a COMMIT in doubt is looked up without waiting for its lock",
    recreates: null,
    changes: [
      {
        file: "stores/postgres/transactions/transactions.ts",
        find: "          statements.waitLock.bind({ lock }),\n",
        replace: "          statements.waitSettings.bind({ limit_ms: timeoutText(leftMs) }),\n",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "a COMMIT whose wait for the standby was cancelled is believed",
    recreates: "acknowledged, and lost at failover",
    changes: [{ file: "sql/pg/bridge.ts", find: 'if (has("01000")) {', replace: "if (false) {" }],
    tiers: ["P6"],
  },
  {
    name: "an owner's writes on Postgres are not fenced",
    recreates: "river #1302",
    changes: [
      inFiles(
        "r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int and r.token = :'token'::uuid",
        "r.id = :'id'::uuid and r.state = 'in_progress' and :'attempt'::int > 0 and :'token'::uuid is not null",
      ),
    ],
    tiers: ["P4", "P3"],
  },
  {
    name: "a lease is renewed by whoever had it",
    recreates: "solid_queue #589: heartbeats of a zombie",
    changes: [
      inFiles(
        "l.record_id = :'id'::uuid and l.attempt = :'attempt'::int and l.token = :'token'::uuid",
        "l.record_id = :'id'::uuid and :'attempt'::int > 0 and :'token'::uuid is not null",
      ),
    ],
    tiers: ["P4", "P3"],
  },
  {
    name: "an attempt is taken over without looking at its lease again",
    recreates: "river #1302 → PR #1373",
    changes: [
      {
        file: "stores/postgres/sql/texts.ts",
        find: ":'fingerprint'::bytea and (exists (select 1 from lease) or",
        replace: ":'fingerprint'::bytea and (true or",
      },
    ],
    tiers: ["P4", "P3"],
  },
  {
    name: "an attempt is given up without looking at its lease again",
    recreates: "dbos-transact-java #477",
    changes: [
      {
        file: "stores/postgres/sql/texts.ts",
        find: "r.state = 'in_progress' and (exists (select 1 from lease) or",
        replace: "r.state = 'in_progress' and (true or",
      },
    ],
    tiers: ["P4", "P3"],
  },
  {
    name: "what is settled is not the version that was judged",
    recreates: null,
    changes: [
      inFiles(
        "r.id = :'guard_id'::uuid and r.state = :'guard_state'::text and r.attempt = :'guard_attempt'::int and r.token = :'guard_token'::uuid and r.state = 'unknown'",
        "r.state = 'unknown' and :'guard_id'::uuid is not null and :'guard_state'::text is not null and :'guard_attempt'::int is not null and :'guard_token'::uuid is not null",
      ),
    ],
    tiers: ["P3", "P4"],
  },
  {
    name: "the cleaner on Postgres purges what is being run again",
    recreates: null,
    changes: [
      {
        file: "stores/postgres/sql/texts.ts",
        find: "r.state in ('completed', 'failed') and r.expires_at < r.forget_at and r.expires_at <=",
        replace: "r.state in ('completed', 'failed', 'in_progress') and r.expires_at <=",
      },
      {
        file: "stores/postgres/sql/texts.ts",
        find: "response_schema_version = null where r.ctid = any (array(select row_id from due)) and r.state in ('completed', 'failed')",
        // With the times that the table's constraint asks for.
        replace:
          "response_schema_version = null, finished_at = coalesce(r.finished_at, r.created_at), forget_at = coalesce(r.forget_at, r.expires_at), input = null where r.ctid = any (array(select row_id from due))",
      },
    ],
    tiers: ["P3", "P4"],
  },
];
