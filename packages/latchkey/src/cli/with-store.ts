import { type PostgresStore, postgresStore } from "../stores/postgres.ts";
import type { CommandContext } from "./command.ts";
import { type EndablePool, openPool } from "./open-pool.ts";
import { databaseUrlOf, schemaOf } from "./options.ts";

export interface DatabaseValues {
  readonly "database-url"?: string | undefined;
  readonly schema?: string | undefined;
}

/** What commands do with records needs no `tx`. */
export type CommandStore = PostgresStore<unknown>;

/**
 * Opens the store for one command, makes sure that its tables are there, and closes it afterwards.
 *
 * @throws {LatchkeyError} `schema-invalid`
 * @throws {StoreError} when the database cannot be reached.
 */
export async function withStore<T>(
  context: CommandContext,
  values: DatabaseValues,
  work: (store: CommandStore) => Promise<T>,
): Promise<T> {
  const schema = schemaOf(values.schema);
  const pool = await openPool(context.cwd, databaseUrlOf(context, values["database-url"]));
  const store = postgresStore<EndablePool>({ pool, schema });
  try {
    await store.verify();
    return await work(store);
  } finally {
    await store.close().catch(() => {});
    await pool.end();
  }
}
