/** The store contract on Postgres: one statement per step. Its guard decides; null means that it did not hold. */
import type { RecordKey, UnknownRecord } from "../../engine/record.ts";
import type { Clock } from "../../ports.ts";
import type { TransactionBridge } from "../../sql/transaction.ts";
import type { ExamineRequest, Finding } from "../examination.ts";
import type { HintSupport } from "../hints.ts";
import type { Store, StoreCapabilities } from "../store.ts";
import type { PostgresExecutor } from "./executor.ts";
import { GatheredReads } from "./gathering/gathered-reads.ts";
import { leaseStatements } from "./leases/lease-statements.ts";
import { postgresLeases } from "./leases/leases.ts";
import { messageStatements } from "./messages/message-statements.ts";
import { postgresMessages } from "./messages/messages.ts";
import { activeKeyStatements, countKeysOf } from "./operator/active-keys.ts";
import { examinePostgres } from "./operator/examine.ts";
import { factStatements, postgresFacts } from "./operator/facts.ts";
import { postgresMaintenance } from "./operator/maintenance.ts";
import { maintenanceStatements } from "./operator/maintenance-statements.ts";
import { overviewStatements, readOverview } from "./operator/overview.ts";
import { postgresSummaries } from "./operator/summaries.ts";
import { postgresTenantData } from "./operator/tenant-data.ts";
import { tenantStatements } from "./operator/tenant-statements.ts";
import { postgresDeliveries } from "./outbox/deliveries.ts";
import { deliveryStatements } from "./outbox/delivery-statements.ts";
import { postgresOutbox } from "./outbox/outbox.ts";
import { outboxStatements } from "./outbox/outbox-statements.ts";
import { Positions } from "./outbox/positions.ts";
import { Settings } from "./settings.ts";
import { postgresEarly } from "./settlement/early.ts";
import { earlyStatements } from "./settlement/early-statements.ts";
import { auditLog, postgresSettlement } from "./settlement/settlement.ts";
import { settlementStatements } from "./settlement/settlement-statements.ts";
import { begunLife, booleanOf, onlyRow, readingOf, tracedAs } from "./statements/rows.ts";
import type { SqlNames } from "./statements/sql-parts.ts";
import { guardValues, keyValues, lifeValues } from "./statements/values.ts";
import { postgresDeferred } from "./steps/deferred.ts";
import { deferredStatements } from "./steps/deferred-statements.ts";
import { postgresJournal } from "./steps/journal.ts";
import { journalStatements } from "./steps/journal-statements.ts";
import { batchStatements } from "./transactions/batch-statements.ts";
import { postgresBatches } from "./transactions/batches.ts";
import { Confirmation, lookOf } from "./transactions/confirm.ts";
import { phaseStatements } from "./transactions/phase-statements.ts";
import { postgresPhases } from "./transactions/phases.ts";
import { SeenSessions } from "./transactions/session-statements.ts";
import { transactionStatements } from "./transactions/transaction-statements.ts";
import { postgresTransactions } from "./transactions/transactions.ts";

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
      const { reading, unconfirmed } = lookOf(await reads.read(own, look));
      return readingOf(own, unconfirmed ? await confirmation.readAgain(look) : reading);
    },
    ...postgresLeases({ executor, statements: leaseStatements(names), settings, clock: parts.clock }),
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

function lostLife(life: ReturnType<typeof begunLife>, lastErrorCode: string): UnknownRecord {
  return { ...life, state: "unknown", lastErrorCode, reconcileAfter: null };
}
