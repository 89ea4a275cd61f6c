/** The store contract on Postgres: one statement per step. Its guard decides; null means that it did not hold. */
import type {
  Guard,
  InProgressRecord,
  LatchkeyRecord,
  RecordKey,
  UnknownRecord,
} from "../../engine/record.ts";
import type { Clock } from "../../ports.ts";
import type { SqlRow, SqlStatement, SqlValue, TransactionBridge } from "../../sql/transaction.ts";
import type { ExamineRequest, Finding } from "../examination.ts";
import type { HintSupport } from "../hints.ts";
import type { NewLife } from "../life.ts";
import type { AttemptEnd, Store, StoreCapabilities } from "../store.ts";
import { activeKeyStatements, countKeysOf } from "./active-keys.ts";
import { batchStatements } from "./batch-statements.ts";
import { postgresBatches } from "./batches.ts";
import { Confirmation } from "./confirm.ts";
import { postgresDeferred } from "./deferred.ts";
import { deferredStatements } from "./deferred-statements.ts";
import { postgresDeliveries } from "./deliveries.ts";
import { deliveryStatements } from "./delivery-statements.ts";
import { postgresEarly } from "./early.ts";
import { earlyStatements } from "./early-statements.ts";
import { examinePostgres } from "./examine.ts";
import type { PostgresExecutor } from "./executor.ts";
import { factStatements, postgresFacts } from "./facts.ts";
import { GatheredReads } from "./gathered-reads.ts";
import { postgresJournal } from "./journal.ts";
import { journalStatements } from "./journal-statements.ts";
import { leaseStatements } from "./lease-statements.ts";
import { postgresMaintenance } from "./maintenance.ts";
import { maintenanceStatements } from "./maintenance-statements.ts";
import { messageStatements } from "./message-statements.ts";
import { postgresMessages } from "./messages.ts";
import { postgresOutbox } from "./outbox.ts";
import { outboxStatements } from "./outbox-statements.ts";
import { overviewStatements, readOverview } from "./overview.ts";
import { phaseStatements } from "./phase-statements.ts";
import { postgresPhases } from "./phases.ts";
import { Positions } from "./positions.ts";
import {
  begunLife,
  booleanOf,
  momentOf,
  nullableText,
  numberOf,
  onlyRow,
  readingOf,
  textOf,
} from "./rows.ts";
import { SeenSessions } from "./session-statements.ts";
import { Settings } from "./settings.ts";
import { auditLog, postgresSettlement } from "./settlement.ts";
import { settlementStatements } from "./settlement-statements.ts";
import type { SqlNames } from "./sql-parts.ts";
import { postgresSummaries } from "./summaries.ts";
import type { StatementTemplate } from "./template.ts";
import { postgresTenantData } from "./tenant-data.ts";
import { tenantStatements } from "./tenant-statements.ts";
import { transactionStatements } from "./transaction-statements.ts";
import { postgresTransactions } from "./transactions.ts";
import {
  fingerprintValues,
  guardValues,
  keyValues,
  leaseValues,
  lifeValues,
  ownerValues,
  retentionValues,
} from "./values.ts";

export interface StoreParts<Tx> {
  readonly name: string;
  readonly schema: string;
  /** The call that returns the store's time. */
  readonly timeFunction: string;
  /** Whether the server ends transactions and statements that last too long. */
  readonly serverLimits: boolean;
  readonly capabilities: StoreCapabilities;
  readonly executor: PostgresExecutor;
  readonly bridge: TransactionBridge<Tx>;
  readonly clock: Clock;
  readonly hints: HintSupport | null;
}

export interface AssembledStore<Tx> extends Store<Tx> {
  examine(request: ExamineRequest): Promise<readonly Finding[]>;
  isRunning(key: RecordKey): Promise<boolean>;
}

export function assembleStore<Tx>(parts: StoreParts<Tx>): AssembledStore<Tx> {
  const { executor, bridge, schema, capabilities } = parts;
  const names = namesOf(parts);
  const transaction = transactionStatements(names);
  const delivery = deliveryStatements(names);
  const phase = phaseStatements(names);
  const maintenance = maintenanceStatements(names);
  const outbox = outboxStatements(names);
  const messages = messageStatements(names);
  const early = earlyStatements(names);
  const overview = overviewStatements(names);
  const activeKeys = activeKeyStatements(names);
  const tenant = tenantStatements(names);
  const settlement = settlementStatements(names);
  const sessions = new SeenSessions();
  const settings = new Settings(executor, names, schema);
  const confirmation = new Confirmation(executor, transaction);
  const reads = new GatheredReads({ executor, readMany: transaction.readMany, clock: parts.clock });
  const positions = new Positions(executor, parts.clock, names);
  const transactionParts = {
    bridge,
    schema,
    executor,
    settings,
    statements: { ...transaction, ...delivery },
    confirmation,
    sessions,
    positions,
  };
  return {
    name: parts.name,
    capabilities,
    keepsTraces: true,
    transactions: {
      ...postgresTransactions(transactionParts),
      ...postgresBatches({ ...transactionParts, batch: batchStatements(names) }),
      phase: postgresPhases({ bridge, schema, executor, sessions, statements: phase, positions }),
      deliver: postgresDeliveries({ bridge, schema, sessions, statements: { ...delivery, ...phase } }),
    },
    journal: postgresJournal({
      executor,
      statements: journalStatements(names),
      waitSettings: transaction.waitSettings,
    }),
    settlement: postgresSettlement(executor, settlement, confirmation),
    ...auditLog(executor, settlement),
    early: postgresEarly(executor, early),
    summaries: postgresSummaries(executor, maintenance),
    facts: postgresFacts(executor, factStatements(names)),
    tenantData: postgresTenantData(executor, tenant),
    outbox: postgresOutbox(executor, outbox, confirmation, parts.clock, positions),
    messages: postgresMessages(executor, messages, confirmation),
    hints: parts.hints,
    overview: (countMax) => readOverview(executor, overview, countMax),
    countActiveKeys: (tenants, countMax) => countKeysOf(executor, activeKeys, tenants, countMax),
    examine: (request) => examinePostgres({ ...parts, names, positions }, request),
    async verify() {
      await settings.verify();
      await positions.ensure("now");
    },
    async isRunning(key) {
      const lock = await settings.lockOf(key);
      return booleanOf(onlyRow(await executor.read(maintenance.isRunning.bind({ lock }))), "running");
    },
    async read(key) {
      const own = keyValues(key);
      const look = transaction.read.bind(own);
      return readingOf(own, await confirmation.read(look, reads.read(own, look)));
    },
    ...leaseMethods(executor, leaseStatements(names), settings),
    ...postgresDeferred(executor, deferredStatements(names), confirmation, parts.clock),
    ...postgresMaintenance(executor, { ...maintenance, ...outbox, ...messages, ...early, ...tenant }),
    async recordLostTransaction(life, replaces, errorCode) {
      const values = { ...lifeValues(life), ...guardValues(replaces), error_code: errorCode };
      const [row] = await executor.write(transaction.lose.bind(values));
      return row === undefined ? null : lostLife(begunLife(tracedAs(life, row), row), errorCode);
    },
  };
}

function namesOf<Tx>({ schema, timeFunction, serverLimits, capabilities }: StoreParts<Tx>): SqlNames {
  return {
    records: `"${schema}".records`,
    leases: `"${schema}".leases`,
    steps: `"${schema}".steps`,
    outbox: `"${schema}".outbox`,
    messages: `"${schema}".messages`,
    audit: `"${schema}".audit`,
    early: `"${schema}".early`,
    facts: `"${schema}".facts`,
    settings: `"${schema}".settings`,
    clock: timeFunction,
    synced: capabilities.durability === "synced",
    serverLimits,
  };
}

/** A resumed life has the trace with which it began. */
function tracedAs({ trace: _, ...life }: NewLife, row: SqlRow): NewLife {
  const trace = nullableText(row, "trace");
  return trace === null ? life : { ...life, trace };
}

function lostLife(life: ReturnType<typeof begunLife>, lastErrorCode: string): UnknownRecord {
  return { ...life, state: "unknown", lastErrorCode, reconcileAfter: null };
}

type LeaseMethods = Pick<Store, "create" | "accept" | "takeOver" | "renew" | "end" | "giveUp">;

function leaseMethods(
  executor: PostgresExecutor,
  statements: ReturnType<typeof leaseStatements>,
  settings: Settings,
): LeaseMethods {
  const { heartbeats } = executor;

  /** The row, or null if the guard did not hold. */
  const write = async (statement: SqlStatement) => (await executor.write(statement))[0] ?? null;

  /** Reserves the heartbeat's connection before the attempt begins, and releases it if there is no attempt after all. */
  const begin = async (token: string, leaseMs: number, statement: SqlStatement) => {
    await settings.suits();
    await heartbeats.hold(token, leaseMs);
    const row = await write(statement).catch((error: unknown) => {
      heartbeats.drop(token);
      throw error;
    });
    if (row === null) heartbeats.drop(token);
    return row;
  };

  return {
    async create(life, replaces, terms) {
      const statement = createOf(statements, life, replaces);
      const values = { ...lifeValues(life), ...guardValues(replaces), ...leaseValues(terms) };
      const row = await begin(life.fence.token, terms.leaseMs, statement.bind(values));
      return row === null ? null : runningLife(begunLife(life, row), row);
    },

    async accept(life, replaces, expiresAfterMs) {
      await settings.suits();
      const statement = acceptOf(statements, life, replaces);
      const values = { ...lifeValues(life), ...guardValues(replaces), expires_after_ms: expiresAfterMs };
      const row = await write(statement.bind(values));
      return row === null
        ? null
        : { ...begunLife(life, row), state: "pending", expiresAt: momentOf(row, "expires_at") };
    },

    async takeOver(key, guard, fingerprint, token, terms) {
      const statement = takeOverFrom(statements, guard.state);
      if (statement === null) return null;
      const values = {
        ...keyValues(key),
        ...guardValues(guard),
        ...fingerprintValues(fingerprint),
        ...leaseValues(terms),
        id: guard.id,
        token,
      };
      const row = await begin(token, terms.leaseMs, statement.bind(values));
      if (row === null) return null;
      const fence = { attempt: numberOf(row, "attempt"), token };
      const operation = textOf(row, "operation");
      const principal = nullableText(row, "principal");
      const life = { ...key, id: guard.id, operation, fingerprint, principal, fence };
      return runningLife(begunLife(tracedAs(life, row), row), row);
    },

    async renew(key, id, fence, leaseMs) {
      const values = { ...keyValues(key), ...ownerValues(id, fence), lease_ms: leaseMs };
      const [row] = await heartbeats.beat(statements.renew.bind(values));
      if (row === undefined) heartbeats.drop(fence.token);
      else await heartbeats.hold(fence.token, leaseMs);
      return row !== undefined;
    },

    async end(key, id, fence, end) {
      const [statement, values] = endOf(statements, end);
      const row = await write(statement.bind({ ...keyValues(key), ...ownerValues(id, fence), ...values }));
      heartbeats.drop(fence.token);
      if (row === null) return null;
      return { expiresAt: "expires_at" in row ? momentOf(row, "expires_at") : null };
    },

    async giveUp(key, guard, errorCode, reconcileAfterMs) {
      const reason = { error_code: errorCode, reconcile_after_ms: reconcileAfterMs };
      const values = { ...keyValues(key), ...guardValues(guard), ...reason };
      return (await write(statements.giveUp.bind(values))) !== null;
    },
  };
}

type LeaseStatements = ReturnType<typeof leaseStatements>;

function createOf(all: LeaseStatements, { trace }: NewLife, replaces: Guard | null): StatementTemplate {
  if (trace === undefined) return replaces === null ? all.create : all.createOver;
  return replaces === null ? all.createTraced : all.createOverTraced;
}

function acceptOf(all: LeaseStatements, { trace }: NewLife, replaces: Guard | null): StatementTemplate {
  if (trace === undefined) return replaces === null ? all.accept : all.acceptOver;
  return replaces === null ? all.acceptTraced : all.acceptOverTraced;
}

function takeOverFrom(
  statements: ReturnType<typeof leaseStatements>,
  state: LatchkeyRecord["state"],
): StatementTemplate | null {
  if (state === "retryable") return statements.takeOverRetryable;
  return state === "in_progress" ? statements.takeOverEnded : null;
}

function endOf(
  statements: ReturnType<typeof leaseStatements>,
  end: AttemptEnd,
): [StatementTemplate, Readonly<Record<string, SqlValue>>] {
  switch (end.event) {
    case "complete":
    case "fail": {
      const state = end.event === "complete" ? "completed" : "failed";
      const finished = { state, answer: end.answer, error_code: end.errorCode };
      return [statements.finish, { ...finished, ...retentionValues(end.retention) }];
    }
    case "release":
      return [statements.release, {}];
    case "retry_later": {
      const { errorCode, resumeAfterMs } = end;
      const parked = { state: "retryable", error_code: errorCode, reconcile_after_ms: resumeAfterMs };
      return [statements.park, parked];
    }
    case "doubt": {
      const { errorCode, reconcileAfterMs } = end;
      const parked = { state: "unknown", error_code: errorCode, reconcile_after_ms: reconcileAfterMs };
      return [statements.park, parked];
    }
    default:
      return end satisfies never;
  }
}

function runningLife(life: ReturnType<typeof begunLife>, row: SqlRow): InProgressRecord {
  const leaseEndsAt = momentOf(row, "lease_ends_at");
  return { ...life, state: "in_progress", leaseEndsAt, expiresAt: momentOf(row, "expires_at") };
}
