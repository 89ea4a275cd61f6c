/** On a table of some thousand effects, of which none was claimed when it was analyzed. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { outboxStatements } from "../../packages/latchkey/src/stores/postgres/outbox/outbox-statements.ts";
import { defaultTimeFunction } from "../../packages/latchkey/src/stores/postgres/statements/names.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { prepareDatabase } from "./harness.ts";

const rowCount = 10_000;
const fill = `
  insert into latchkey.outbox (id, aggregatetype, aggregateid, type, payload, tenant, scope, key, record_id, fingerprint,
    step, index, downstream_key, ordered, available_at, created_at)
  select gen_random_uuid(), 'send', 'a' || n, 'orders.create', '\\x00', 't', '', 'k' || n, gen_random_uuid(), '\\x00', '', 0,
    'lk_' || n, false, now(), now()
  from generate_series(1, ${rowCount}) n`;

interface Node {
  readonly "Node Type": string;
  readonly "Join Filter"?: string;
  readonly Plans?: readonly Node[];
}

function nodesOf(node: Node): readonly Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

/** A page of ends, as arrays. */
const count = 500;
const lists = {
  ids: `{${Array.from({ length: count }, () => randomUUID()).join()}}`,
  attempts: `{${new Array(count).fill(1).join()}}`,
  tokens: `{${new Array(count).fill(randomUUID()).join()}}`,
  results: `{${new Array(count).fill("00").join()}}`,
  keeps_ms: `{${new Array(count).fill(1_000).join()}}`,
};

forEachPostgres((_version, database) => {
  let client: pg.Client;
  const { deliverEffects, removeEffects } = outboxStatements({
    records: "latchkey.records",
    leases: "latchkey.leases",
    steps: "latchkey.steps",
    outbox: "latchkey.outbox",
    messages: "latchkey.messages",
    audit: "latchkey.audit",
    early: "latchkey.early",
    facts: "latchkey.facts",
    settings: "latchkey.settings",
    clock: defaultTimeFunction,
    synced: true,
    serverLimits: true,
  });

  beforeAll(async () => {
    await prepareDatabase(database.url);
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(fill);
    await client.query("vacuum analyze latchkey.outbox");
    await client.query("set plan_cache_mode = force_custom_plan");
  });
  afterAll(() => client?.end());

  test.each([deliverEffects, removeEffects])(
    "ends are not compared with every row: $name",
    async (statement) => {
      const { text, values } = statement.bind(lists);
      const { rows } = await client.query<{ "QUERY PLAN": readonly { Plan: Node }[] }>(
        `explain (format json) ${text}`,
        [...values],
      );
      const plan = rows[0]?.["QUERY PLAN"][0]?.Plan;
      if (plan === undefined) throw new Error("no plan");
      const compared = nodesOf(plan).filter((node) => node["Join Filter"]?.includes("c.id"));
      expect(compared).toEqual([]);
    },
  );
});
