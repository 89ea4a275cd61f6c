/** `limits.activeKeys` among processes on a real server, and what a count costs there. */
import type pg from "pg";
import { expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { activeKeyStatements } from "../../packages/latchkey/src/stores/postgres/operator/active-keys.ts";
import { defaultTimeFunction } from "../../packages/latchkey/src/stores/postgres/statements/names.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { manualPorts } from "../support/manual-ports.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { until } from "../support/until.ts";
import { expectNoLeak, openPool, prepareDatabase } from "./harness.ts";

const names = {
  records: '"latchkey".records',
  leases: '"latchkey".leases',
  steps: '"latchkey".steps',
  outbox: '"latchkey".outbox',
  messages: '"latchkey".messages',
  audit: '"latchkey".audit',
  early: '"latchkey".early',
  facts: '"latchkey".facts',
  settings: '"latchkey".settings',
  clock: defaultTimeFunction,
  synced: true,
  serverLimits: true,
};

/** Ended ones of one tenant, so that the planner sees a table in which the tenant says nothing. */
const fill = (tenant: string, count: number) => `
  insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt,
    token, answer, created_at, finished_at, expires_at, forget_at)
  select '${tenant}', 'op', 'key-' || n, gen_random_uuid(), 'op', 'completed', 1, '\\x00', 1, gen_random_uuid(), '\\x00', now(),
    now(), now() + interval '1 hour', now() + interval '1 hour'
  from generate_series(1, ${count}) n`;

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly Plans?: readonly PlanNode[];
}

function nodesOf(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

forEachPostgres((_version, database) => {
  let pool: pg.Pool;

  test("what one process begins is refused by the other, and a full tenant goes on with its keys", async () => {
    await prepareDatabase(database.url);
    pool = openPool(database.url, { max: 4 });
    const ports = manualPorts();
    const start = () => {
      const latchkey = createLatchkey({ store: postgresStore({ pool }), ports, limits: { activeKeys: 5 } });
      const operation = latchkey.operation("op", { writes: "none" });
      const run = (key: string, tenant = "t") =>
        latchkey.run(operation, { tenant, key, input: null }, async () => key);
      return { latchkey, run };
    };
    const [one, other] = [start(), start()];
    for (const key of ["a", "b", "c"]) expect((await one.run(key)).kind).toBe("executed");
    for (const key of ["d", "e"]) expect((await other.run(key)).kind).toBe("executed");
    let tries = 0;
    const refused = await until(async () => {
      tries += 1;
      await ports.clock.advance(30_000);
      const result = await other.run(`more-${tries}`);
      return result.kind === "too_many_keys" ? result : null;
    });
    expect(refused).toMatchObject({ because: "activeKeys" });
    // The default is a day.
    expect(refused?.retryAfterMs).toBeGreaterThan(60 * 60 * 1_000);
    expect((await other.run("a")).kind).toBe("replay");
    expect((await other.run("a", "another")).kind).toBe("executed");
    for (const { latchkey } of [one, other]) expect(await latchkey.close()).toBe(true);
    await expectNoLeak(pool);
  });

  test("a count reads no more rows than the limit, also of a tenant that has the whole table", async () => {
    await pool.query("truncate latchkey.records");
    await pool.query(fill("only", 30_000));
    await pool.query(fill("few", 10));
    await pool.query("vacuum analyze latchkey.records");
    const { countActiveKeys } = activeKeyStatements(names);
    const rowsRead = async (tenant: string, limit: number) => {
      const { text, values } = countActiveKeys.bind({ tenants: JSON.stringify([tenant]), count_max: limit });
      const { rows } = await pool.query<{ "QUERY PLAN": readonly { Plan: PlanNode }[] }>(
        `explain (analyze, format json) ${text}`,
        [...values],
      );
      const plan = rows[0]?.["QUERY PLAN"][0]?.Plan;
      if (plan === undefined) throw new Error("no plan");
      const scans = nodesOf(plan).filter((node) => node["Relation Name"] === "records");
      return scans.map((node) => [node["Node Type"], node["Actual Rows"] * node["Actual Loops"]]);
    };
    for (const limit of [50, 3_000]) {
      expect(await rowsRead("only", limit)).toEqual([
        ["Index Only Scan", limit],
        ["Index Scan", limit],
      ]);
    }
    expect(await rowsRead("few", 3_000), "the table itself is read of full tenants alone").toEqual([
      ["Index Only Scan", 10],
      ["Index Scan", 0],
    ]);
  });
});
