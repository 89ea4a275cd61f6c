/** Every statement finds its rows through an index, also when a connection has prepared it once and for all. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { archiveStatement } from "../../packages/latchkey/src/stores/archive.ts";
import { leaseStatements } from "../../packages/latchkey/src/stores/postgres/leases/lease-statements.ts";
import { messageStatements } from "../../packages/latchkey/src/stores/postgres/messages/message-statements.ts";
import { activeKeyStatements } from "../../packages/latchkey/src/stores/postgres/operator/active-keys.ts";
import { examineStatements } from "../../packages/latchkey/src/stores/postgres/operator/examine-statements.ts";
import { factStatements } from "../../packages/latchkey/src/stores/postgres/operator/facts.ts";
import { maintenanceStatements } from "../../packages/latchkey/src/stores/postgres/operator/maintenance-statements.ts";
import { overviewStatements } from "../../packages/latchkey/src/stores/postgres/operator/overview.ts";
import { tenantStatements } from "../../packages/latchkey/src/stores/postgres/operator/tenant-statements.ts";
import { deliveryStatements } from "../../packages/latchkey/src/stores/postgres/outbox/delivery-statements.ts";
import { outboxStatements } from "../../packages/latchkey/src/stores/postgres/outbox/outbox-statements.ts";
import { positionStatements } from "../../packages/latchkey/src/stores/postgres/outbox/positions.ts";
import { earlyStatements } from "../../packages/latchkey/src/stores/postgres/settlement/early-statements.ts";
import { settlementStatements } from "../../packages/latchkey/src/stores/postgres/settlement/settlement-statements.ts";
import { sql } from "../../packages/latchkey/src/stores/postgres/sql/texts.ts";
import { defaultTimeFunction } from "../../packages/latchkey/src/stores/postgres/statements/names.ts";
import {
  plainStatement,
  statement,
} from "../../packages/latchkey/src/stores/postgres/statements/statement.ts";
import type { StatementTemplate } from "../../packages/latchkey/src/stores/postgres/statements/template.ts";
import { deferredStatements } from "../../packages/latchkey/src/stores/postgres/steps/deferred-statements.ts";
import { journalStatements } from "../../packages/latchkey/src/stores/postgres/steps/journal-statements.ts";
import { batchStatements } from "../../packages/latchkey/src/stores/postgres/transactions/batch-statements.ts";
import { phaseStatements } from "../../packages/latchkey/src/stores/postgres/transactions/phase-statements.ts";
import { sessionStatements } from "../../packages/latchkey/src/stores/postgres/transactions/session-statements.ts";
import { transactionStatements } from "../../packages/latchkey/src/stores/postgres/transactions/transaction-statements.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";
import { prepareDatabase } from "./harness.ts";

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
const doctor = examineStatements(names);
const statements = {
  archive: archiveStatement("latchkey_archive"),
  notify: plainStatement("notify", sql.notify),
  session: plainStatement("session", sql.session),
  writeBarrier: plainStatement("write_barrier", sql.writeBarrier),
  ...sessionStatements,
  ...positionStatements(names),
  settings: statement("settings", sql.settings, names),
  suitability: doctor.suitability,
  examineServer: doctor.server,
  examineClock: doctor.clock,
  examineRights: doctor.rights,
  examineVersion: doctor.version,
  examineVacuum: doctor.vacuum,
  examineShapes: doctor.shapes,
  examineDurations: doctor.durations,
  ...batchStatements(names),
  ...leaseStatements(names),
  ...transactionStatements(names),
  ...maintenanceStatements(names),
  ...journalStatements(names),
  ...settlementStatements(names),
  ...phaseStatements(names),
  ...outboxStatements(names),
  ...deliveryStatements(names),
  ...deferredStatements(names),
  ...messageStatements(names),
  ...earlyStatements(names),
  ...overviewStatements(names),
  ...tenantStatements(names),
  ...activeKeyStatements(names),
  ...factStatements(names),
  open: transactionStatements(names).open.comparing,
  openBatch: batchStatements(names).openBatch.comparing,
  openPhase: phaseStatements(names).openPhase.comparing,
};

/** Below some 30 000 the planner rightly takes other plans for small tables. */
const rowCount = Number(process.env.LATCHKEY_PLAN_ROWS ?? (isThorough ? "100000" : "40000"));

const fill = `
  insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt,
    token, answer, created_at, finished_at, expires_at, forget_at, reconcile_after)
  select 'tenant-' || n % 50, 'orders.create', 'key-' || n, gen_random_uuid(), 'orders.create-' || n % 3, state, 1,
    '\\x00', 1, gen_random_uuid(), case when state = 'completed' then '\\x00'::bytea end, at,
    case when state in ('completed', 'expired') then at end,
    case when state in ('completed', 'in_progress', 'pending') then at + interval '1 day' end,
    case when state in ('completed', 'expired') then at + interval '2 days' end,
    case when state in ('retryable', 'unknown') and n % 40 > 20 then at + interval '1 day' end
  from (
    select n, clock_timestamp() - n * interval '1 second' as at,
      case n % 20 when 0 then 'in_progress' when 1 then 'pending' when 2 then 'expired' when 3 then 'retryable'
        when 4 then 'unknown' else 'completed' end as state
    from generate_series(1, ${rowCount}) n) x;
  insert into latchkey.leases (tenant, scope, key, record_id, operation, attempt, token, locked_until, lease_end,
    attempts_max, abandon_at)
  select tenant, scope, key, id, operation, attempt, token, created_at + interval '1 minute',
    case when right(key, 2) < '50' then 'resume' else 'reconcile' end, 5, expires_at
  from latchkey.records where state = 'in_progress';
  insert into latchkey.steps (record_id, name, tenant, scope, key, position, version, kind, state, effect, generation,
    downstream_key, input, result, sends, started_at, finished_at)
  select id, 'charge', tenant, scope, key, 0, '1', 'call', 'finished', 'effect-' || right(key, 1), 0, 'lk_' || id,
    '\\x00', '\\x00', 1, created_at, created_at
  from latchkey.records;
  insert into latchkey.audit (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof)
  select gen_random_uuid(), created_at, tenant, scope, key, id, 'settle_completed', 'unknown', 'completed', 'owner',
    'owner'
  from latchkey.records;
  insert into latchkey.outbox (id, aggregatetype, aggregateid, type, payload, tenant, scope, key, record_id, fingerprint,
    step, index, downstream_key, aggregate, ordered, state, available_at, attempt, token, claimed_at, locked_until,
    created_at, finished_at, expires_at)
  select gen_random_uuid(), 'effect-' || n % 3, 'order-' || n % 1000, operation, '\\x00', tenant, scope, key, id, '\\x00',
    '', 0, 'lk_' || id, 'order-' || n % 1000, n % 5 = 0, effect_state, at, 1, gen_random_uuid(),
    case effect_state when 'claimed' then at end, case effect_state when 'claimed' then at + interval '1 minute' end, at,
    case when effect_state in ('delivered', 'dead') then at end,
    case effect_state when 'delivered' then at + interval '1 day' end
  from (
    select x.*, created_at as at, right(key, 4)::int as n, case when right(key, 2) < '10' then 'pending'
        when right(key, 2) = '10' then 'claimed' when right(key, 2) = '11' then 'dead' else 'delivered' end
      as effect_state
    from (select * from latchkey.records where length(key) > 7) x) y;
  insert into latchkey.messages (digest, id, source, operation, tenant, key, state, starts, returns, failures, reason, payload,
    created_at, died_at, expires_at)
  select decode(md5(key), 'hex'), id, 'queue', operation, tenant, key, message_state, 1, 1, 1,
    case message_state when 'dead' then 'refused' end, case message_state when 'dead' then '\\x00'::bytea end, created_at,
    case message_state when 'dead' then created_at end, case message_state when 'watched' then created_at end
  from (select *, case when right(key, 1) = '5' then 'dead' else 'watched' end as message_state from latchkey.records) x;
  insert into latchkey.early (record_id, audit_id, tenant, scope, key, kept_at, said)
  select id, gen_random_uuid(), tenant, scope, key, created_at, '{}' from latchkey.records where length(key) > 7;
  insert into latchkey.facts (tenant, scope, key, kind, record_id, count, facts)
  select tenant, scope, key, 'repeat', id, 1, '[{"at":1,"what":"replay"}]' from latchkey.records where right(key, 1) < '5';
  analyze latchkey.facts, latchkey.records, latchkey.leases, latchkey.steps, latchkey.audit, latchkey.outbox, latchkey.messages, latchkey.early`;

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly Plans?: readonly PlanNode[];
}

/** With a guard of another state the planner sees that there is nothing to do. */
const guardedState: Readonly<Record<string, string>> = {
  settle_finished: "unknown",
  settle_not_executed: "unknown",
  settle_call: "unknown",
  postpone: "unknown",
  list_pending: "pending",
  list_running: "in_progress",
  answer_by_effect: "retryable",
  deliver_effects: "{}",
  remove_effects: "{}",
  look_batch: "{}",
  complete_batch: "{}",
  complete_batch_traced: "{}",
};

const tables = ["records", "leases", "steps", "audit", "outbox", "messages", "early", "facts"];

/** A statement that names both a key and an id finds one row by either; which one the planner takes does not matter. */
function indexOf(indexes: readonly string[]) {
  return (name: string) =>
    name === "records_id" && indexes.includes("records_pkey") ? "records_pkey" : name;
}

function nodesOf(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

/** How each statement may reach the tables. TID scans follow an index scan that found and locked the row. */
const expected: Readonly<Record<string, readonly string[]>> = {
  positionLook: ["outbox_ordered"],
  positionAdvance: ["outbox_ordered"],
  read: ["records_pkey", "leases_pkey"],
  readMany: ["leases_pkey", "records_pkey"],
  look: ["records_pkey"],
  lookBatch: ["records_pkey"],
  complete: [],
  completeTraced: [],
  completeBatch: [],
  completeBatchTraced: [],
  completeOver: ["steps_pkey"],
  completeOverTraced: ["steps_pkey"],
  lose: ["steps_pkey"],
  create: ["records_pkey"],
  createMany: ["records_pkey"],
  createOver: ["records_pkey", "steps_pkey"],
  createTraced: ["records_pkey"],
  createOverTraced: ["records_pkey", "steps_pkey"],
  accept: ["records_pkey"],
  acceptOver: ["records_pkey", "steps_pkey"],
  acceptTraced: ["records_pkey"],
  acceptOverTraced: ["records_pkey", "steps_pkey"],
  takeOverRetryable: ["records_pkey"],
  takeOverEnded: ["records_pkey", "leases_pkey"],
  renew: ["leases_pkey"],
  renewMany: ["leases_pkey"],
  finish: ["records_pkey", "leases_pkey"],
  finishMany: ["records_pkey", "leases_pkey"],
  park: ["records_pkey", "leases_pkey"],
  release: ["records_pkey", "leases_pkey", "steps_pkey", "facts_pkey"],
  giveUp: ["records_pkey", "leases_pkey"],
  endedLeases: ["leases_rescue", "records_pkey"],
  abandon: ["records_abandon"],
  forget: ["records_forget", "outbox_record", "steps_pkey", "facts_pkey"],
  summary: ["records_pkey"],
  dueToForget: ["outbox_record", "records_forget"],
  forgetNamed: ["outbox_record", "records_id", "steps_pkey", "facts_pkey"],
  purge: ["records_purge"],
  reapLeases: ["leases_rescue", "records_pkey"],
  journal: ["records_pkey", "steps_pkey"],
  startCall: ["records_pkey"],
  endCall: ["records_pkey", "steps_pkey"],
  callEnded: ["records_pkey", "steps_pkey"],
  refence: ["records_pkey", "leases_pkey"],
  callsByKey: ["steps_downstream_key", "records_pkey"],
  finishedCalls: ["steps_finished_calls", "records_pkey"],
  settleFinished: ["records_pkey"],
  settleNotExecuted: ["records_pkey", "steps_pkey"],
  settleCall: ["records_pkey", "steps_pkey"],
  hasten: ["audit_pkey", "records_pkey"],
  settled: ["audit_pkey"],
  claimUnknowns: ["records_reconcile"],
  postpone: ["records_pkey"],
  resumable: ["records_reconcile", "leases_resume", "records_pkey"],
  listParked: ["records_parked", "leases_pkey"],
  audit: ["audit_key"],
  advance: [],
  completePhase: ["leases_pkey"],
  dropLease: ["leases_pkey"],
  advanceEnqueuing: [],
  completePhaseEnqueuing: ["leases_pkey"],
  enqueue: [],
  enqueueTraced: [],
  claimEffects: ["outbox_claimed", "outbox_due", "outbox_ordered", "outbox_pkey"],
  dueEffects: ["outbox_claimed", "outbox_due", "outbox_ordered", "outbox_pkey"],
  claimEffect: ["outbox_pkey", "outbox_ordered"],
  startEffects: ["outbox_pkey"],
  effectsStarted: ["outbox_pkey"],
  deliverEffects: ["outbox_pkey"],
  removeEffects: ["outbox_pkey"],
  endEffects: ["outbox_pkey"],
  effectsEnded: ["outbox_pkey"],
  rescueEffects: ["outbox_claimed"],
  endedClaims: ["outbox_claimed"],
  rescueEffect: ["outbox_pkey", "outbox_claimed"],
  listDead: ["outbox_dead", "outbox_pkey"],
  effectsOfRecord: ["outbox_record"],
  effectsByKey: ["outbox_record"],
  finishedEffects: ["outbox_finished"],
  confirmEffect: ["audit_pkey", "outbox_pkey"],
  decideEffect: ["audit_key", "audit_pkey", "outbox_pkey"],
  effectDecided: ["audit_pkey"],
  cleanEffects: ["outbox_delivered"],
  finishEffect: ["outbox_pkey"],
  answerByEffect: ["outbox_pkey", "records_pkey"],
  claimPending: ["records_pending"],
  duePending: ["records_pending"],
  claimPendingOne: ["records_pkey"],
  readById: ["records_id", "leases_pkey"],
  keepEarly: ["records_pkey"],
  earlyOf: ["early_pkey"],
  dueEarly: ["early_kept", "records_pkey"],
  reapEarly: ["early_kept", "early_pkey", "records_pkey"],
  findMessage: ["messages_pkey"],
  countMessage: [],
  forgetMessage: ["messages_pkey"],
  buryMessage: [],
  condemnMessage: ["messages_pkey"],
  messageIsDead: ["messages_pkey"],
  listMessages: ["messages_dead"],
  removeMessage: ["audit_pkey", "messages_id"],
  messageRemoved: ["audit_pkey"],
  cleanMessages: ["messages_expire"],
  sweepEffects: ["outbox_pkey"],
  sweepMessages: ["messages_pkey"],
  sweepRecords: ["early_pkey", "facts_pkey", "leases_pkey", "outbox_record", "records_pkey", "steps_pkey"],
  sweepEarly: ["early_pkey", "records_id"],
  sweepAudit: ["audit_key", "audit_pkey"],
  noteDeletion: [],
  cleanAudit: ["audit_at", "audit_pkey"],
  listPending: ["leases_pkey", "records_pending"],
  listAudit: ["audit_at"],
  listAuditOfTenant: ["audit_key"],
  countActiveKeys: ["records_pkey"],
  keepFacts: ["records_pkey"],
  factsOf: ["facts_pkey"],
  overview: [
    "leases_rescue",
    "messages_dead",
    "outbox_claimed",
    "outbox_dead",
    "outbox_due",
    "outbox_ordered",
    "records_parked",
    "records_pending",
    "records_pkey",
  ],
};

/** A death that is named needs no look for decisions before it. */
const withKnownValues = { decideEffect: ["audit_pkey", "outbox_pkey"] } satisfies typeof expected;

/** Files of SQL whose statements have no row in `expected`. */
const notExpected = {
  archive: "inserts into a table of the service",
  asLeft: "sets settings alone",
  asOpened: "sets settings alone",
  open: "takes an advisory lock and reads settings alone",
  openBatch: "takes advisory locks and reads settings alone",
  notify: "sends notifications alone",
  openPhase: "reads settings alone",
  positionLock: "takes an advisory lock alone",
  session: "reads settings alone",
  waitSettings: "reads settings alone",
  writeBarrier: "writes a message to the log alone",
  barrier: "writes a message to the log alone",
  waitLock: "takes an advisory lock alone",
  isRunning: "reads the locks of the server alone",
  settings: "reads a table of a few rows",
  suitability: "reads the catalogue alone",
  examineServer: "reads settings alone",
  examineClock: "reads the time alone",
  examineRights: "reads the catalogue alone",
  examineVersion: "reads a table of a few rows",
  examineVacuum: "reads the catalogue and statistics alone",
  examineShapes: "has a test of its own below, since 50,000 records may be the whole table here",
  examineDurations: "reads 50,000 records, which may be the whole table here",
  list: "reads the whole table for what is finished",
  listEffects: "reads the whole table for what is delivered",
  listRunning: "has a test of its own below",
};

test("every file of SQL is one of these statements, and its plan is looked at or there is a reason", () => {
  expect(Object.keys(sql).filter((name) => !(name in statements))).toEqual([]);
  const others = Object.keys(sql).filter((name) => !(name in expected));
  expect(others.sort()).toEqual(Object.keys(notExpected).sort());
  const plain = [
    transactionStatements(names).open,
    batchStatements(names).openBatch,
    phaseStatements(names).openPhase,
  ];
  for (const { text } of [...Object.values(statements), ...plain.map((opening) => opening.plain)]) {
    expect(text, "every option is chosen").not.toMatch(/\/\*|\*\//u);
  }
});

forEachPostgres((_version, database) => {
  let client: pg.Client;

  beforeAll(async () => {
    await prepareDatabase(database.url);
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(fill);
  });
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
      text: `'${guardedState[name.replace(/^lk_|_[0-9a-f]+$/g, "")] ?? "55"}'`,
      boolean: "true",
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
    const folded: typeof expected = mode === "force_custom_plan" ? withKnownValues : {};
    test.each(Object.entries({ ...expected, ...folded }))("%s", async (kind, indexes) => {
      const statement = statements[kind as keyof typeof statements];
      const nodes = await planOf(statement, mode, "100");
      const scans = nodes.filter((node) => tables.includes(node["Relation Name"] ?? ""));
      const walked = scans.filter((node) => node["Node Type"].includes("Seq Scan"));
      expect(walked, "no scan of a whole table").toEqual([]);
      const used = new Set(nodes.flatMap((node) => node["Index Name"] ?? []).map(indexOf(indexes)));
      expect([...used].sort()).toEqual([...indexes].sort());
      // `overview` limits each of its walks; the position statements read the index of the undelivered ordered effects whole.
      if (["overview", "positionLook", "positionAdvance"].includes(kind)) return;
      const unbounded = nodes.filter(
        (node) => node["Index Name"] !== undefined && node["Index Cond"] === undefined,
      );
      expect(unbounded, "no walk through a whole index").toEqual([]);
    });
  });

  test.each(["force_generic_plan", "force_custom_plan"])(
    "what is in progress is listed by its leases, all of them, and each record by its key: %s",
    async (mode) => {
      const nodes = await planOf(statements.listRunning, mode, "100");
      const scans = nodes.filter((node) => node["Relation Name"] === "records");
      expect(scans.map((node) => [node["Node Type"], node["Index Name"]])).toEqual([
        ["Index Scan", expect.stringMatching(/^records_(?:pkey|id)$/u)],
      ]);
    },
  );

  test("doctor reads the newest records, and no others", async () => {
    const { name, text } = statements.examineShapes;
    const fewer = text.replace("limit 50000", "limit 100");
    expect(fewer).not.toBe(text);
    const nodes = await planOf({ ...statements.examineShapes, name, text: fewer }, "auto", "100");
    const scans = nodes.filter((node) => node["Relation Name"] === "records");
    expect(scans.map((node) => [node["Node Type"], node["Index Name"]])).toEqual([
      ["Index Scan", "records_id"],
    ]);
  });

  test("the statements that are not looked at here touch no table, but for a list of what is not parked or dead", () => {
    const ofTables = ["list", "listEffects", "listRunning", "examineDurations", "examineShapes"];
    // These name tables only in texts, and the archive's table is the service's.
    const ofCatalogue = ["suitability", "examineRights", "positionLock", "archive"];
    const rest = Object.entries(statements).filter(
      ([kind]) => !(kind in expected) && ![...ofTables, ...ofCatalogue].includes(kind),
    );
    expect(rest.map(([kind]) => kind).sort()).toEqual(
      [
        "asLeft",
        "asOpened",
        "barrier",
        "examineClock",
        "examineServer",
        "examineVacuum",
        "examineVersion",
        "isRunning",
        "notify",
        "open",
        "openBatch",
        "openPhase",
        "savepoint",
        "session",
        "settings",
        "undo",
        "waitLock",
        "waitSettings",
        "writeBarrier",
      ].sort(),
    );
    for (const [, { text }] of rest)
      expect(text).not.toMatch(/records|leases|steps|audit|outbox|\.messages|\.early/);
  });
});
