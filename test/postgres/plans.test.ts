/** Every statement finds its rows through an index, also when a connection has prepared it once and for all. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { leaseStatements } from "../../packages/latchkey/src/stores/postgres/lease-statements.ts";
import { maintenanceStatements } from "../../packages/latchkey/src/stores/postgres/maintenance-statements.ts";
import { defaultTimeFunction } from "../../packages/latchkey/src/stores/postgres/names.ts";
import type { StatementTemplate } from "../../packages/latchkey/src/stores/postgres/template.ts";
import { transactionStatements } from "../../packages/latchkey/src/stores/postgres/transaction-statements.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { prepareDatabase } from "./harness.ts";

const names = {
  records: '"latchkey".records',
  leases: '"latchkey".leases',
  settings: '"latchkey".settings',
  clock: defaultTimeFunction,
  synced: true,
  serverLimits: true,
};
const statements = {
  ...leaseStatements(names),
  ...transactionStatements(names),
  ...maintenanceStatements(names),
};

/** Set to a million by the long proofs. */
const rowCount = Number(process.env.LATCHKEY_PLAN_ROWS ?? "100000");

const fill = `
  insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt,
    token, answer, created_at, finished_at, expires_at, forget_at)
  select 'tenant-' || n % 50, 'orders.create', 'key-' || n, gen_random_uuid(), 'orders.create', state, 1, '\\x00', 1,
    gen_random_uuid(), case when state = 'completed' then '\\x00'::bytea end, at,
    case when state in ('completed', 'expired') then at end,
    case when state in ('completed', 'in_progress', 'pending') then at + interval '1 day' end,
    case when state in ('completed', 'expired') then at + interval '2 days' end
  from (
    select n, clock_timestamp() - n * interval '1 second' as at,
      case n % 20 when 0 then 'in_progress' when 1 then 'pending' when 2 then 'expired' else 'completed' end as state
    from generate_series(1, ${rowCount}) n) x;
  insert into latchkey.leases (tenant, scope, key, record_id, attempt, token, locked_until, lease_end, attempts_max,
    abandon_at)
  select tenant, scope, key, id, attempt, token, created_at + interval '1 minute', 'reconcile', 5, expires_at
  from latchkey.records where state = 'in_progress';
  analyze latchkey.records;
  analyze latchkey.leases`;

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly Plans?: readonly PlanNode[];
}

function nodesOf(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

/** How each statement may reach the two tables. TID scans follow an index scan that found and locked the row. */
const expected: Readonly<Record<string, readonly string[]>> = {
  read: ["records_pkey", "leases_pkey"],
  complete: [],
  lose: [],
  create: ["records_pkey"],
  createOver: ["records_pkey"],
  accept: ["records_pkey"],
  acceptOver: ["records_pkey"],
  takeOverRetryable: ["records_pkey"],
  takeOverEnded: ["records_pkey", "leases_pkey"],
  renew: ["leases_pkey"],
  finish: ["records_pkey", "leases_pkey"],
  park: ["records_pkey", "leases_pkey"],
  release: ["records_pkey", "leases_pkey"],
  giveUp: ["records_pkey", "leases_pkey"],
  endedLeases: ["leases_rescue", "records_pkey"],
  abandon: ["records_abandon"],
  forget: ["records_forget"],
  purge: ["records_purge"],
};

forEachPostgres((_version, database) => {
  let client: pg.Client;

  beforeAll(async () => {
    await prepareDatabase(database.url);
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(fill);
  }, 300_000);
  afterAll(() => client?.end());

  async function planOf(
    { name, text }: StatementTemplate,
    mode: string,
    limit: string,
  ): Promise<readonly PlanNode[]> {
    await client.query(`set plan_cache_mode = ${mode}`);
    await client.query(`prepare ${name} as ${text}`);
    const { rows: types } = await client.query<{ types: string[] }>(
      "select parameter_types::text[] as types from pg_prepared_statements where name = $1",
      [name],
    );
    const values: Readonly<Record<string, string>> = {
      uuid: "gen_random_uuid()",
      text: "'5'",
      smallint: "1",
      bytea: "'\\x00'",
      "double precision": "1000",
      integer: limit,
    };
    const list = (types[0]?.types ?? []).map((type) => values[type] ?? "null");
    const call = list.length === 0 ? name : `${name}(${list.join(", ")})`;
    const { rows } = await client.query<{ "QUERY PLAN": readonly { Plan: PlanNode }[] }>(
      `explain (format json) execute ${call}`,
    );
    await client.query(`deallocate ${name}`);
    const plan = rows[0]?.["QUERY PLAN"][0]?.Plan;
    if (plan === undefined) throw new Error("no plan");
    return nodesOf(plan);
  }

  describe.each(["force_generic_plan", "force_custom_plan"])("with plan_cache_mode = %s", (mode) => {
    test.each(Object.entries(expected))("%s", async (kind, indexes) => {
      const statement = statements[kind as keyof typeof statements];
      const nodes = await planOf(statement, mode, "100");
      const scans = nodes.filter((node) => ["records", "leases"].includes(node["Relation Name"] ?? ""));
      const walked = scans.filter((node) => node["Node Type"].includes("Seq Scan"));
      expect(walked, "no scan of a whole table").toEqual([]);
      const used = new Set(nodes.flatMap((node) => node["Index Name"] ?? []));
      expect([...used].sort()).toEqual([...indexes].sort());
    });
  });

  test("the statements that are not looked at here touch neither table", () => {
    const rest = Object.entries(statements).filter(([kind]) => !(kind in expected));
    expect(rest.map(([kind]) => kind).sort()).toEqual(
      ["barrier", "open", "savepoint", "settings", "undo", "waitLock", "waitSettings"].sort(),
    );
    for (const [, { text }] of rest) expect(text).not.toMatch(/records|leases/);
  });
});
