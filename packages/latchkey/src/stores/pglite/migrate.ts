/** The Postgres migrations, run on PGlite. */
import { type PgliteDatabase, type PgliteQueryable, sessionOf } from "../../sql/pglite/database.ts";
import { runStatement } from "../../sql/pglite/statements.ts";
import { renderMigrations } from "../migrate-postgres.ts";

/** In one transaction: all or nothing, and nothing else in between. */
export async function migrate(database: PgliteDatabase, schema: string): Promise<void> {
  await sessionOf(database).transaction(async (tx) => {
    await tx.exec(renderMigrations(schema, await versionOf(tx, schema)));
  });
}

/** 0 if nothing was migrated yet. */
async function versionOf(tx: PgliteQueryable, schema: string): Promise<number> {
  const migrations = `"${schema}".migrations`;
  const ask = (text: string, ...values: string[]) => runStatement(tx, { name: "lk_version", text, values });
  const [found] = await ask("select pg_catalog.to_regclass($1::text) is not null as present", migrations);
  if (found?.present !== true) return 0;
  const [newest] = await ask(`select pg_catalog.max(version)::int as version from ${migrations}`);
  return Number(newest?.version ?? 0);
}
