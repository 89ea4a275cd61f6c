/** What docs/upgrading.md says about migrations and stored forms, from what the code has. */
import { readMigrations } from "../../packages/latchkey/src/stores/migrate-postgres.ts";
import { schemaVersion } from "../../packages/latchkey/src/stores/postgres/settings.ts";
import { renderTable } from "./sections.ts";

/** Every migration, and the version that the code wants. */
export function renderMigrations(migrations = readMigrations(), version = schemaVersion): string {
  const last = migrations.at(-1)?.version;
  if (last !== version) {
    throw new TypeError(`the code needs schema version ${version}, the last migration is ${last}`);
  }
  const rows = migrations.map((one) => [String(one.version), `\`${one.name}\``]);
  return `${renderTable(["Version", "Migration"], rows)}\n\nThis code needs version ${version}.`;
}
