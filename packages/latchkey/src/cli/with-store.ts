/** What a command works on: the database that its options name, or with `--config` the store of the service. */
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { isIdentityCodec } from "../codec.ts";
import type { LatchkeyConfig } from "../config.ts";
import type { RecordKey } from "../engine/record.ts";
import type { Runtime } from "../execution/runtime.ts";
import { createLatchkey } from "../latchkey.ts";
import { type DeadMessages, deadMessages, type Republish } from "../messages/dead-messages.ts";
import type { PgPool } from "../sql/pg/client.ts";
import type { OutboxSupport } from "../stores/outbox.ts";
import { postgresStore } from "../stores/postgres.ts";
import type { Store } from "../stores/store.ts";
import { type CommandContext, CommandError, UsageError } from "./command.ts";
import { loadConfig } from "./load-config.ts";
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
  if (values.config !== undefined) {
    return withConfig(context, values, values.config, ({ latchkey: { runtime } }) =>
      work(runtime.store, !isIdentityCodec(runtime.codec)),
    );
  }
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

/**
 * Loads the service's config for one command, checks that the tables of its store exist, and closes it afterwards.
 *
 * @throws {UsageError} when a database is named, too
 * @throws {CommandError} when the config is invalid
 */
async function withConfig<T>(
  context: CommandContext,
  values: DatabaseValues,
  file: string,
  work: (config: LatchkeyConfig<unknown>) => Promise<T>,
): Promise<T> {
  for (const option of ["database-url", "schema"] as const) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --config exclude each other.`);
  }
  const config = await loadConfig(resolve(context.cwd, file));
  try {
    await config.latchkey.runtime.store.verify();
    return await work(config);
  } finally {
    await config.close?.();
  }
}

export interface EndablePool extends PgPool {
  on(event: "error", listener: () => void): unknown;
  end(): Promise<void>;
}

/** The part of `import("pg")` that is used. */
interface PgModule {
  readonly default: {
    readonly Pool: new (options: {
      readonly connectionString?: string;
      readonly max: number;
      readonly connectionTimeoutMillis: number;
    }) => EndablePool;
  };
}

/**
 * Opens a pool with the project's own `pg`: Latchkey does not depend on a client.
 *
 * @param url without one, `pg` reads the PG* variables
 * @param max how many connections; default 1
 * @throws {UsageError} when no database is named, or the URL is invalid
 * @throws {CommandError} when the project has no `pg`
 */
export async function openPool(
  { cwd, env }: CommandContext,
  url: string | undefined,
  max = 1,
): Promise<EndablePool> {
  checkNamed(env, url);
  const { default: pg }: PgModule = await import(pathToFileURL(findPg(cwd)).href);
  const pool = new pg.Pool({
    ...(url === undefined || url === "" ? {} : { connectionString: url }),
    max,
    connectionTimeoutMillis: 10_000,
  });
  pool.on("error", () => {});
  return pool;
}

/** Without a name `pg` would only report "no PostgreSQL user name specified in startup packet". The URL may hold a password. */
function checkNamed(env: CommandContext["env"], url: string | undefined): void {
  if (url === undefined || url === "") {
    if (Object.keys(env).some((name) => /^PG[A-Z]/u.test(name))) return;
    throw new UsageError(
      "No database is named: set DATABASE_URL, or pass --database-url postgres://user:password@host:5432/database, or --config where the command takes one.",
    );
  }
  if (/^(?:postgres(?:ql)?|socket):/u.test(url) ? URL.canParse(url) : url.startsWith("/")) return;
  throw new UsageError(
    "The database's URL is malformed. It has the form postgres://user:password@host:5432/database, with special characters of the password percent-encoded.",
  );
}

function findPg(cwd: string): string {
  try {
    return createRequire(join(cwd, "package.json")).resolve("pg");
  } catch (error) {
    const message = `The package "pg" is not installed in ${cwd}. Run \`npm install pg\` there. (\`latchkey migrate --sql\` works without it.)`;
    throw new CommandError(message, { cause: error });
  }
}

export const serviceOptions = { config: { type: "string" } } as const;

export interface ServiceValues extends DatabaseValues {
  readonly config?: string | undefined;
}

export interface OpenService {
  readonly runtime: Pick<Runtime<unknown>, "store" | "ports">;
  /** @throws {CommandError} when the store has no messages */
  readonly messages: DeadMessages;
  /** Whether stored values can be decoded: a command without a config does not have the service's codec. */
  readonly hasCodec: boolean;
  readonly republish: Republish | null;
}

/**
 * Opens the service of the config, or the store alone, for one command; checks that its tables exist, and closes it afterwards.
 *
 * @throws {UsageError} for both a config and a database
 * @throws {CommandError} when the config is invalid
 */
export async function withService<T>(
  context: CommandContext,
  values: ServiceValues,
  work: (service: OpenService) => Promise<T>,
): Promise<T> {
  if (values.config === undefined) {
    return withStore(context, values, (store) => {
      const latchkey = createLatchkey({ store });
      const messages = deadMessages(latchkey);
      return work({ runtime: latchkey.runtime, messages, hasCodec: false, republish: null });
    });
  }
  return withConfig(context, values, values.config, ({ latchkey, republish = null }) => {
    const { runtime } = latchkey;
    return work({
      runtime,
      get messages() {
        const { name, messages } = runtime.store;
        if (messages === null) throw new CommandError(`Store ${name} has no messages.`);
        return deadMessages(latchkey);
      },
      hasCodec: true,
      republish,
    });
  });
}

/** @throws {CommandError} when the store has no outbox. */
export function outboxOf({ name, outbox }: OpenService["runtime"]["store"]): OutboxSupport {
  if (outbox === null) throw new CommandError(`Store ${name} has no outbox.`);
  return outbox;
}
