import { resolve } from "node:path";
import { isIdentityCodec } from "../codec.ts";
import type { RecordKey } from "../engine/record.ts";
import { postgresStore } from "../stores/postgres.ts";
import type { Store } from "../stores/store.ts";
import { type CommandContext, UsageError } from "./command.ts";
import { loadConfig } from "./load-config.ts";
import { type EndablePool, openPool } from "./open-pool.ts";
import { databaseUrlOf, schemaOf } from "./options.ts";

export interface DatabaseValues {
  readonly "database-url"?: string | undefined;
  readonly schema?: string | undefined;
  /** The service's config, whose store is used instead, such as several databases. */
  readonly config?: string | undefined;
}

/** Commands about records need no `tx`. */
export interface CommandStore extends Store<unknown> {
  /** Whether a transaction runs under this key right now. Absent: not known. */
  isRunning?(key: RecordKey): Promise<boolean>;
}

/**
 * Opens the store for one command, checks that its tables exist, and closes it afterwards.
 *
 * @param work `hasCodec`: the config's service stores through a codec, which the command does not use
 * @throws {LatchkeyError} `schema-invalid`
 * @throws {StoreError} when the database cannot be reached.
 * @throws {UsageError} for both a config and a database
 */
export async function withStore<T>(
  context: CommandContext,
  values: DatabaseValues,
  work: (store: CommandStore, hasCodec: boolean) => Promise<T>,
): Promise<T> {
  if (values.config !== undefined) return withConfig(context, values, values.config, work);
  const schema = schemaOf(values.schema);
  const pool = await openPool(context, databaseUrlOf(context, values["database-url"]));
  const store = postgresStore<EndablePool>({ pool, schema });
  try {
    await store.verify();
    return await work(store, false);
  } finally {
    await store.close().catch(() => {});
    await pool.end();
  }
}

async function withConfig<T>(
  context: CommandContext,
  values: DatabaseValues,
  file: string,
  work: (store: CommandStore, hasCodec: boolean) => Promise<T>,
): Promise<T> {
  for (const option of ["database-url", "schema"] as const) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --config exclude each other.`);
  }
  const config = await loadConfig(resolve(context.cwd, file));
  try {
    const { store, codec } = config.latchkey.runtime;
    await store.verify();
    return await work(store, !isIdentityCodec(codec));
  } finally {
    await config.close?.();
  }
}
