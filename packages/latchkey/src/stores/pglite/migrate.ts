/** The Postgres migrations, run on PGlite. */
import { type PgliteDatabase, type PgliteQueryable, sessionOf } from "../../transactions/pglite/database.ts";
import { renderMigrations } from "../migrate-postgres.ts";

/** In one transaction: all or nothing, and nobody else in between. */
export async function migrate(database: PgliteDatabase, schema: string): Promise<void> {
  await sessionOf(database).transaction(async (tx) => {
    await tx.exec(renderMigrations(schema, await versionOf(tx, schema)));
  });
}

/** 0 where nothing was migrated yet. */
async function versionOf(tx: PgliteQueryable, schema: string): Promise<number> {
  const migrations = `"${schema}".migrations`;
  const found = await tx.query("select pg_catalog.to_regclass($1::text) is not null as present", [
    migrations,
  ]);
  if (found.rows[0]?.present !== true) return 0;
  const { rows } = await tx.query(`select pg_catalog.max(version) as version from ${migrations}`, []);
  return Number(rows[0]?.version ?? 0);
}
