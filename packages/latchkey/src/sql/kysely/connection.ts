/** A connection in Kysely's sense, over a client on which a transaction is open. */

/** A statement that Kysely has compiled. */
export interface KyselyQuery {
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

export interface KyselyResult {
  readonly rows: readonly unknown[];
  readonly numAffectedRows?: bigint;
}

export interface KyselyConnection {
  executeQuery(query: KyselyQuery): Promise<KyselyResult>;
  streamQuery(query: KyselyQuery, chunkSize: number): AsyncIterableIterator<KyselyResult>;
}

/** The part of a `pg` client that serves Kysely inside a transaction. */
export interface KyselyPgClient {
  query(text: string, values: readonly unknown[]): Promise<PgAnswer>;
  query<Query extends object>(query: Query): Query;
}

/** Without `command` and `rows`, it is the result of several statements in one text. */
interface PgAnswer {
  readonly command?: string;
  readonly rowCount?: number | null;
  readonly rows?: readonly unknown[];
}

/** The part of a PGlite transaction that serves Kysely. */
export interface KyselyPgliteTx {
  query(
    text: string,
    values: readonly unknown[],
    options: { readonly rowMode: "object" },
  ): Promise<{ readonly rows: readonly unknown[]; readonly affectedRows?: number }>;
}

/** The class that `pg-cursor` exports. */
export type CursorClass = new (
  text: string,
  values: unknown[],
) => { read(rows: number): Promise<unknown[]>; close(): Promise<void> };

/** Statements for which Kysely returns the number of affected rows. */
const writing: ReadonlySet<string | undefined> = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);

export function pgConnection(client: KyselyPgClient, Cursor: CursorClass | undefined): KyselyConnection {
  return {
    async executeQuery({ sql, parameters }) {
      const { command, rowCount, rows = [] } = await client.query(sql, parameters);
      return writing.has(command) ? { rows, numAffectedRows: BigInt(rowCount ?? 0) } : { rows };
    },
    async *streamQuery({ sql, parameters }, chunkSize) {
      if (Cursor === undefined) {
        throw new TypeError(
          "stream() needs a cursor: pass the class of pg-cursor to kyselyTransactions, as `cursor`",
        );
      }
      const cursor = client.query(new Cursor(sql, [...parameters]));
      try {
        for (let rows = await cursor.read(chunkSize); rows.length > 0; rows = await cursor.read(chunkSize)) {
          yield { rows };
        }
      } finally {
        await cursor.close();
      }
    },
  };
}

export function pgliteConnection(tx: KyselyPgliteTx): KyselyConnection {
  return {
    async executeQuery({ sql, parameters }) {
      const { rows, affectedRows } = await tx.query(sql, parameters, { rowMode: "object" });
      return affectedRows === undefined ? { rows } : { rows, numAffectedRows: BigInt(affectedRows) };
    },
    // biome-ignore lint/correctness/useYield: Kysely takes an iterator, and PGlite has nothing to iterate over.
    async *streamQuery() {
      throw new TypeError("PGlite has no cursors for stream()");
    },
  };
}
