import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { PgPool } from "../transactions/pg/client.ts";
import { CommandError } from "./command.ts";

export interface EndablePool extends PgPool {
  on(event: "error", listener: () => void): unknown;
  end(): Promise<void>;
}

/** What `import("pg")` gives. */
interface PgModule {
  readonly default: {
    readonly Pool: new (options: { readonly connectionString?: string; readonly max: number }) => EndablePool;
  };
}

/**
 * Opens a pool of one connection with the project's own `pg`: Latchkey brings no client.
 *
 * @param url without one, `pg` reads the PG* variables
 * @throws {CommandError} when the project has no `pg`
 */
export async function openPool(cwd: string, url: string | undefined): Promise<EndablePool> {
  const { default: pg }: PgModule = await import(pathToFileURL(findPg(cwd)).href);
  const pool = new pg.Pool({ ...(url === undefined || url === "" ? {} : { connectionString: url }), max: 1 });
  pool.on("error", () => {});
  return pool;
}

function findPg(cwd: string): string {
  try {
    return createRequire(join(cwd, "package.json")).resolve("pg");
  } catch (error) {
    const message = `The package "pg" is not installed in ${cwd}. Run \`npm install pg\` there. (\`latchkey migrate --sql\` works without.)`;
    throw new CommandError(message, { cause: error });
  }
}
