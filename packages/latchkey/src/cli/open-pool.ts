import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { PgPool } from "../sql/pg/client.ts";
import { type CommandContext, CommandError, UsageError } from "./command.ts";

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
