/** A ready archive: a table, in this database or another. */
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Archive, ForgottenRecord } from "./archival.ts";
import { sql } from "./postgres/sql/texts.ts";
import { plainStatement } from "./postgres/statements/statement.ts";
import type { StatementTemplate } from "./postgres/statements/template.ts";

/** A `pg` pool or client, or a PGlite database. */
export interface ArchiveClient {
  query(text: string, values: string[]): PromiseLike<unknown>;
}

export interface PostgresArchiveOptions {
  readonly client: ArchiveClient;
  /** A plain lower-case name, with its schema or without. Default `latchkey_archive`. */
  readonly table?: string;
}

const optionNames = { client: true, table: true } as const satisfies OptionNames<PostgresArchiveOptions>;
const defaultTable = "latchkey_archive";
const plainTable = /^(?:[a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$/u;

/**
 * Writes records into a table before they are forgotten, each once. The table comes from your migrations: see
 * `postgresArchiveSql`.
 *
 * @example latchkey.startWorker({ recordCleaner: { archive: postgresArchive({ client: pool }) } });
 * @throws {TypeError} when an option is out of range
 */
export function postgresArchive(options: PostgresArchiveOptions): Archive {
  checkOptions("postgresArchive", options, optionNames);
  const { client, table = defaultTable } = options;
  if (typeof client?.query !== "function")
    throw new TypeError("postgresArchive: client must be a pool or a database");
  const { text } = archiveStatement(quoted(table));
  return async (records) => {
    await client.query(text, [JSON.stringify(records.map(rowOf))]);
  };
}

/** @param table quoted, because it is part of the text */
export function archiveStatement(table: string): StatementTemplate {
  return plainStatement(
    "archive",
    sql.archive.replace("latchkey_archive", () => table),
  );
}

// Not a file in `postgres/sql/`: comments and line breaks are removed from those, and belong to a migration.
/**
 * The table as SQL, for your own migrations.
 *
 * @throws {TypeError} when the name is not plain
 */
export function postgresArchiveSql(options: { readonly table?: string } = {}): string {
  checkOptions("postgresArchiveSql", options, { table: true });
  const table = options.table ?? defaultTable;
  const name = quoted(table);
  return `create table ${name} (
  id uuid primary key,
  tenant text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  operation text collate "C" not null,
  principal text collate "C",
  state text collate "C" not null,
  fingerprint_version smallint not null,
  fingerprint bytea not null,
  attempt integer not null,
  -- As it was stored; encrypted where the service has a codec that encrypts. Null: it had gone before.
  answer bytea,
  -- What its request asked for, in short, as it was stored. Null: the service kept none.
  summary bytea,
  last_error_code text collate "C",
  created_at timestamptz not null,
  finished_at timestamptz not null,
  archived_at timestamptz not null default now()
);
create index on ${name} (tenant, scope, key);
create index on ${name} (archived_at);
`;
}

function quoted(table: string): string {
  if (!plainTable.test(table)) {
    throw new TypeError(
      `table must be a plain name such as "latchkey_archive" (got ${JSON.stringify(table)})`,
    );
  }
  return table
    .split(".")
    .map((part) => `"${part}"`)
    .join(".");
}

function rowOf(record: ForgottenRecord): Readonly<Record<string, string | number | null>> {
  const { id, tenant, scope, key, operation, principal, state, fingerprint, fence, summary } = record;
  const isExpired = record.state === "expired";
  return {
    ...{ id, tenant, scope, key, operation, principal, state },
    fingerprint_version: fingerprint.version,
    fingerprint: hex(fingerprint.digest),
    attempt: fence.attempt,
    answer: isExpired || record.answer === null ? null : hex(record.answer),
    summary: summary && hex(summary),
    last_error_code: isExpired ? null : record.lastErrorCode,
    created_at: record.createdAt,
    finished_at: record.finishedAt,
  };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
