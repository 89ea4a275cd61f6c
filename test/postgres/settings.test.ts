/** Database settings, each from wherever it can come: Latchkey serves, or refuses before any business code and says why. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { postgresVersions } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";
import {
  businessRows,
  expectRefused,
  expectServed,
  poolWith,
  type SettingsDatabase,
  serviceOn,
  settingsDatabase,
} from "./settings-arrange.ts";
import { handlerRows, type Origin, type SettingRow, settingRows } from "./settings-table.ts";

const allOrigins: readonly Origin[] = ["options", "hook", "role", "database", "handler"];
/** One version shows each; the other is asked in the thorough run. */
const versions = isThorough ? postgresVersions() : postgresVersions().slice(-1);

describe.each(versions)("settings on PostgreSQL %i", (version) => {
  let database: SettingsDatabase;

  beforeAll(async () => {
    database = await settingsDatabase(version);
    await database.admin.query(`
      do $$ begin
        if not exists (select from pg_roles where rolname = 'settings_tenant') then create role settings_tenant; end if;
      exception when others then null; end $$;
      create function become_tenant() returns void language sql as 'select set_config(''role'', ''settings_tenant'', true)';
    `);
  });

  const cases = settingRows
    .filter(({ since = 0 }) => since <= version)
    .flatMap((row) => originsOf(row).map((origin) => ({ row, origin, title: titleOf(row, origin) })));

  test.each(cases)("$title", async ({ row, origin }) => {
    const service = serviceOn(await poolWith(database, row, origin));
    const act = async (tx: { query(text: string, values: string[]): Promise<unknown> }) => {
      if (origin === "handler") await tx.query("select set_config($1, $2, true)", [row.name, row.value]);
    };
    if (row.refuses === undefined) await expectServed(database, service, act);
    else await expectRefused(database, service, row.refuses);
    await service.close();
  });

  test.each(handlerRows)("a handler: $title", async ({ act, refuses }) => {
    const row = { name: "application_name", value: "plain" };
    const service = serviceOn(await poolWith(database, row, "handler"));
    if (refuses === undefined) {
      await expectServed(database, service, act);
    } else {
      const refusal = { code: "store-unavailable", message: expect.stringMatching(refuses) };
      await expect(service.order("k", act)).rejects.toMatchObject(refusal);
      expect(await businessRows(database, service)).toBe(0);
      expect(await service.order("k")).toMatchObject({ kind: "executed" });
    }
    await service.close();
  });

  afterAll(async () => {
    await database?.admin.query("drop owned by settings_tenant").catch(() => {});
  });
});

function originsOf(row: SettingRow): readonly Origin[] {
  return isThorough ? (row.origins ?? allOrigins) : (row.sample ?? []);
}

function titleOf({ name, value, refuses }: SettingRow, origin: Origin): string {
  return `${name} = ${value} by ${origin}: ${refuses === undefined ? "serves" : "refuses"}`;
}
