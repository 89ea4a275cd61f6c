/** What a DBA, a platform, a pool or a handler may set, and what comes of it; `docs/database-settings.md` says the same. */
import type pg from "pg";

/** Where a setting comes from. */
export type Origin = "options" | "hook" | "role" | "database" | "handler";

export interface SettingRow {
  readonly name: string;
  readonly value: string;
  /** What the error says where it refuses. Default: it serves. */
  readonly refuses?: RegExp;
  /** Default: all. */
  readonly origins?: readonly Origin[];
  /** The first major version that knows it. */
  readonly since?: number;
  /** Shown in `npm test`; the others only in the thorough run. */
  readonly sample?: readonly Origin[];
}

const sessions: readonly Origin[] = ["options", "hook", "role", "database"];
const readOnly = /read-only.*default_transaction_read_only/;

export const settingRows: readonly SettingRow[] = [
  { name: "default_transaction_isolation", value: "serializable", sample: ["database", "handler"] },
  { name: "default_transaction_isolation", value: "repeatable read", sample: ["options"] },
  {
    name: "default_transaction_read_only",
    value: "on",
    origins: sessions,
    refuses: readOnly,
    sample: ["database", "hook"],
  },
  { name: "default_transaction_read_only", value: "on", origins: ["handler"] },
  { name: "default_transaction_deferrable", value: "on" },
  { name: "statement_timeout", value: "20s", sample: ["role"] },
  { name: "lock_timeout", value: "20s" },
  { name: "idle_in_transaction_session_timeout", value: "20s", sample: ["options"] },
  { name: "transaction_timeout", value: "20s", since: 17 },
  { name: "idle_session_timeout", value: "20s" },
  { name: "tcp_user_timeout", value: "20s" },
  { name: "search_path", value: "nowhere", sample: ["hook", "handler"] },
  { name: "search_path", value: "hostile_functions, pg_catalog, public", sample: ["options", "handler"] },
  {
    name: "search_path",
    value: "hostile_operators, pg_catalog, public",
    origins: sessions,
    refuses: /search_path.*hostile_operators/,
    sample: ["role"],
  },
  {
    name: "search_path",
    value: "hostile_operators, pg_catalog, public",
    origins: ["handler"],
    sample: ["handler"],
  },
  { name: "row_security", value: "off" },
  { name: "datestyle", value: "SQL, DMY", sample: ["database"] },
  { name: "timezone", value: "Pacific/Chatham", sample: ["role"] },
  { name: "intervalstyle", value: "sql_standard" },
  { name: "bytea_output", value: "escape", sample: ["hook", "handler"] },
  { name: "extra_float_digits", value: "-15" },
  { name: "standard_conforming_strings", value: "off", sample: ["options"] },
  {
    name: "client_encoding",
    value: "LATIN1",
    origins: ["hook"],
    refuses: /client_encoding/,
    sample: ["hook"],
  },
  { name: "client_encoding", value: "LATIN1", origins: ["handler"], sample: ["handler"] },
  // `pg` says UTF8 when it connects, which goes before these.
  { name: "client_encoding", value: "LATIN1", origins: ["role", "database"] },
  { name: "session_replication_role", value: "replica", sample: ["hook"] },
  { name: "synchronous_commit", value: "off" },
  { name: "jit_above_cost", value: "0" },
  { name: "plan_cache_mode", value: "force_generic_plan" },
  { name: "plan_cache_mode", value: "force_custom_plan" },
  { name: "default_tablespace", value: "pg_default" },
  { name: "transform_null_equals", value: "on" },
  { name: "client_min_messages", value: "error" },
  { name: "array_nulls", value: "off" },
  { name: "quote_all_identifiers", value: "on" },
  { name: "enable_indexscan", value: "off" },
];

/** What a handler does to its own transaction. `run` prepares nothing: the roles and functions are there. */
export interface HandlerRow {
  readonly title: string;
  readonly act: (tx: Omit<pg.PoolClient, "release">) => Promise<unknown>;
  readonly refuses?: RegExp;
  readonly since?: number;
}

const says =
  (text: string): HandlerRow["act"] =>
  (tx) =>
    tx.query(text);

export const handlerRows: readonly HandlerRow[] = [
  { title: "set local role", act: says("set local role settings_tenant") },
  { title: "set role", act: says("set role settings_tenant") },
  {
    title: "set_config role",
    act: (tx) => tx.query("select set_config('role', $1, true)", ["settings_tenant"]),
  },
  { title: "a function that sets the role", act: says("select become_tenant()") },
  { title: "set local session authorization", act: says("set local session authorization settings_tenant") },
  {
    title: "a read-only transaction",
    act: says("set transaction_read_only = on"),
    refuses: /read-only transaction/,
  },
];
