/** `transaction` execution over any bridge: the statements sent with BEGIN and with COMMIT, and what each outcome means. */
import { sameFence } from "../../../engine/record.ts";
import { isViolationOf } from "../../../sql/sql-errors.ts";
import type {
  BridgeOutcome,
  BridgeSession,
  BridgeWork,
  SqlStatement,
  TransactionBridge,
} from "../../../sql/transaction.ts";
import type { Reading } from "../../life.ts";
import type {
  Admission,
  BatchedRecord,
  OpenTransaction,
  OptimisticTransaction,
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../../transactions.ts";
import type { PostgresExecutor } from "../executor.ts";
import type { deliveryStatements } from "../outbox/delivery-statements.ts";
import { effectValues } from "../outbox/outbox-rows.ts";
import type { Positions } from "../outbox/positions.ts";
import { asSchemaError, type Settings } from "../settings.ts";
import { booleanOf, momentOf, onlyRow, textOf } from "../statements/rows.ts";
import type { StatementTemplate } from "../statements/template.ts";
import { guardValues, keyValues, lifeValues, retentionValues, timeoutText } from "../statements/values.ts";
import { type Confirmation, isSameVersion, type Look, lookOf } from "./confirm.ts";
import { refused } from "./refused.ts";
import {
  closedRow,
  inOpenedSession,
  LimitsLost,
  type OpenedSession,
  openedSession,
  type SeenSessions,
} from "./session-statements.ts";
import type { transactionStatements } from "./transaction-statements.ts";

export interface TransactionParts<Tx> {
  readonly bridge: TransactionBridge<Tx>;
  readonly schema: string;
  readonly executor: PostgresExecutor;
  readonly settings: Settings;
  readonly statements: ReturnType<typeof transactionStatements> &
    Pick<ReturnType<typeof deliveryStatements>, "enqueue" | "enqueueTraced">;
  readonly confirmation: Confirmation;
  readonly positions: Positions;
  readonly sessions: SeenSessions;
}

export function postgresTransactions<Tx>(
  parts: TransactionParts<Tx>,
): Pick<TransactionSupport<Tx>, "run" | "runOptimistic" | "resolve"> {
  const { bridge } = parts;
  const optimistic: Pick<TransactionSupport<Tx>, "runOptimistic"> = isOptimistic(bridge)
    ? { runOptimistic: (request, admit, work) => runOptimistic(parts, bridge, request, admit, work) }
    : {};
  return {
    ...optimistic,
    run: (request, work) => run(parts, request, work),

    async resolve(key, id, fence, timeoutMs) {
      const { statements, settings, executor } = parts;
      const lock = await Promise.resolve(settings.lockOf(key)).catch(() => null);
      if (lock === null) return "in_doubt";
      const look = statements.read.bind(keyValues(key));
      const rows = await executor.runUntilConfirmed(
        (leftMs) => [
          statements.waitSettings.bind({ limit_ms: timeoutText(leftMs) }),
          statements.waitLock.bind({ lock }),
          // A separate statement, because its snapshot must be taken after the lock.
          look,
          // The COMMIT of this write is replicated after everything that was read.
          statements.barrier.bind({}),
        ],
        timeoutMs,
      );
      if (rows === null) return "in_doubt";
      const { record } = lookOf(rows[2]).reading;
      const own = record?.id === id && sameFence(record.fence, fence);
      return own && (record.state === "completed" || record.state === "expired")
        ? "committed"
        : "rolled_back";
    },
  };
}

async function run<Tx, T>(
  parts: TransactionParts<Tx>,
  request: TransactionRequest,
  work: (open: OpenTransaction<Tx>) => Promise<TransactionWork<T>>,
): Promise<TransactionOutcome<T>> {
  const { statements, settings, bridge } = parts;
  const known = settings.lockOf(request.key);
  const lock = typeof known === "string" ? known : await known;
  const read = () => statements.read.bind(keyValues(request.key));
  // At SERIALIZABLE a look-up inside the transaction would make transactions of different keys in a small table fail.
  const apart = (request.isolation ?? parts.sessions.isolation) === "serializable";
  const earlier = apart ? lookOf(await parts.executor.read(read())) : null;
  let started = false;
  const transact = async (look: StatementTemplate | null): Promise<TransactionOutcome<T>> => {
    const opening = openingOf(parts, request, lock, look);
    let seen: Look | null = null;
    const outcome = await bridge.transact<T>({ isolation: request.isolation, opening }, async (session) => {
      seen = earlier ?? lookOf(session.opened[1]);
      const { reading } = seen;
      const opened = openedSession(onlyRow(session.opened[0]), parts.sessions);
      const { isolation } = opened.settings;
      if (request.isolation === null) parts.sessions.isolation = isolation;
      if (look !== null && isolation === "serializable") throw new LookedInside();
      if (look === statements.look && reading.record?.state === "in_progress") throw new LeaseUnread();
      started = true;
      return withReading(parts, session, opened, reading, work);
    });
    return (await isTrue(parts, read, outcome, seen))
      ? outcomeOf(parts, outcome)
      : { kind: "lost", value: outcome.value };
  };
  try {
    const first = transact(earlier === null ? statements.look : null);
    return await first.catch((error: unknown) => {
      if (error instanceof LeaseUnread) return transact(statements.read);
      throw error;
    });
  } catch (error) {
    if (error instanceof LookedInside || error instanceof LimitsLost) return run(parts, request, work);
    throw started ? error : asSchemaError(error);
  }
}

type OptimisticBridge<Tx> = TransactionBridge<Tx> &
  Required<Pick<TransactionBridge<Tx>, "transactOptimistic">>;

function isOptimistic<Tx>(bridge: TransactionBridge<Tx>): bridge is OptimisticBridge<Tx> {
  return bridge.transactOptimistic !== undefined;
}

/** As `run`, with the look-up in one pipeline with the handler's first statement. */
async function runOptimistic<Tx, T>(
  parts: TransactionParts<Tx>,
  bridge: OptimisticBridge<Tx>,
  request: TransactionRequest,
  admit: (seen: Admission) => Promise<boolean>,
  work: (open: OptimisticTransaction<Tx>) => Promise<TransactionWork<T>>,
): Promise<TransactionOutcome<T>> {
  const { statements, settings } = parts;
  const known = settings.lockOf(request.key);
  const lock = typeof known === "string" ? known : await known;
  const opening = openingOf(parts, request, lock, statements.look);
  let seen: Look | null = null;
  let session: { readonly opened: OpenedSession; readonly began: string } | null = null;
  const outcome = await bridge.transactOptimistic<T>(
    { isolation: request.isolation, opening },
    async ([first, second]) => {
      const row = onlyRow(first);
      // After `LimitsLost`, `LookedInside` or `LeaseUnread`, `run` begins again by itself. Here the caller begins again, with `run`.
      const opened = openedSession(row, parts.sessions);
      const { isolation } = opened.settings;
      if (request.isolation === null) parts.sessions.isolation = isolation;
      if (isolation === "serializable") throw new LookedInside();
      seen = lookOf(second);
      if (seen.reading.record?.state === "in_progress") throw new LeaseUnread();
      session = { opened, began: textOf(row, "began") };
      const { reading } = seen;
      return admit({ reading, exclusive: booleanOf(row, "exclusive"), refusal: opened.refusal });
    },
    async ({ tx, used, flush, revoke, admitted, mayHaveChangedSession }) => {
      const result = await work({ tx, used, flush, revoke, admitted });
      if (result.end !== "commit") return result;
      if (session === null) throw new TypeError("A transaction that was not admitted cannot be committed");
      return closed(parts, session, { mayHaveChangedSession }, result);
    },
  );
  const read = () => statements.read.bind(keyValues(request.key));
  return (await isTrue(parts, read, outcome, seen))
    ? outcomeOf(parts, outcome)
    : { kind: "lost", value: outcome.value };
}

/** If the transaction wrote nothing, the caller's answer rests on the read alone, so the read must still be true. */
async function isTrue<Tx>(
  { confirmation }: TransactionParts<Tx>,
  read: () => SqlStatement,
  { kind }: BridgeOutcome<unknown>,
  seen: Look | null,
): Promise<boolean> {
  if (kind !== "rolled_back" || seen?.unconfirmed !== true) return true;
  const { record } = await confirmation.readAgain(read());
  return isSameVersion(seen.reading.record, record);
}

function openingOf<Tx>(
  { statements, sessions }: TransactionParts<Tx>,
  { key, idleLimitMs, savepoint }: TransactionRequest,
  lock: string,
  look: StatementTemplate | null,
): readonly SqlStatement[] {
  return [
    sessions.opening(statements.open).bind({ lock, limit_ms: timeoutText(idleLimitMs) }),
    ...(look === null ? [] : [look.bind(keyValues(key))]),
    ...(savepoint ? [statements.savepoint.bind({})] : []),
  ];
}

/** The session's own level is SERIALIZABLE, which this process did not know before. */
class LookedInside extends Error {}

/** The look-up found an attempt under a lease. Only `read` reads leases, because a transaction hardly ever finds one. */
class LeaseUnread extends Error {}

async function withReading<Tx, T>(
  parts: TransactionParts<Tx>,
  session: BridgeSession<Tx>,
  opened: OpenedSession,
  reading: Reading,
  work: (open: OpenTransaction<Tx>) => Promise<TransactionWork<T>>,
): Promise<BridgeWork<T>> {
  const { tx, used, flush, revoke } = session;
  const row = onlyRow(session.opened[0]);
  const { refusal } = opened;
  const exclusive = booleanOf(row, "exclusive");
  const result = await work({ reading, exclusive, refusal, tx, used, flush, revoke });
  if (result.end !== "commit") return result;
  return await closed(parts, { opened, began: textOf(row, "began") }, session, result);
}

async function closed<Tx, T>(
  parts: TransactionParts<Tx>,
  { opened, began }: { readonly opened: OpenedSession; readonly began: string },
  session: Parameters<SeenSessions["mayHaveChanged"]>[0],
  result: Extract<TransactionWork<T>, { readonly end: "commit" }>,
): Promise<BridgeWork<T>> {
  if (result.effects.some(({ ordered }) => ordered)) await parts.positions.ensureBeside();
  const statements = closing(parts, began, result);
  // The savepoint was set before the handler ran, so undoing to it also undoes the handler's settings.
  const changed = !result.undoWrites && parts.sessions.mayHaveChanged(session);
  return { end: "commit", value: result.value, closing: inOpenedSession(opened, changed, statements) };
}

type CommitWork<T> = Extract<TransactionWork<T>, { readonly end: "commit" }>;

function closing<Tx, T>(
  parts: TransactionParts<Tx>,
  began: string,
  commit: CommitWork<T>,
): readonly SqlStatement[] {
  const { undo } = parts.statements;
  const complete = completeStatement(parts, began, commit);
  return commit.undoWrites ? [undo.bind({}), complete] : [...effectStatements(parts, commit), complete];
}

/** The statements that enqueue the effects, in the effects' order. */
export function effectStatements<Tx>(
  { statements }: TransactionParts<Tx>,
  { life, effects }: BatchedRecord,
): readonly SqlStatement[] {
  if (effects.length === 0) return [];
  const { enqueue, enqueueTraced } = statements;
  const owner = lifeValues(life);
  return effects.map((effect) =>
    (effect.trace === undefined ? enqueue : enqueueTraced).bind({ ...owner, ...effectValues(effect) }),
  );
}

function completeStatement<Tx>(
  { statements }: TransactionParts<Tx>,
  began: string,
  { life, replaces, retention, answer }: CommitWork<unknown>,
): SqlStatement {
  const isTraced = life.trace !== undefined;
  const [first, over] = isTraced
    ? [statements.completeTraced, statements.completeOverTraced]
    : [statements.complete, statements.completeOver];
  const { retention_ms, forget_after_ms } = retentionValues(retention);
  const values = { ...lifeValues(life), retention_ms, forget_after_ms, answer, began };
  return replaces === null ? first.bind(values) : over.bind({ ...values, ...guardValues(replaces) });
}

function outcomeOf<Tx, T>(parts: TransactionParts<Tx>, outcome: BridgeOutcome<T>): TransactionOutcome<T> {
  const { kind, value } = outcome;
  switch (kind) {
    case "committed":
      return { kind, value, expiresAt: momentOf(closedRow(outcome.closed), "expires_at") };
    case "rolled_back":
    case "in_doubt":
      return outcome;
    case "refused":
      return refusedOutcome(parts, outcome);
    default:
      return kind satisfies never;
  }
}

export function refusedOutcome<Tx, T>(
  { schema, sessions }: TransactionParts<Tx>,
  outcome: Extract<BridgeOutcome<T>, { readonly kind: "refused" }>,
) {
  const { error, value } = outcome;
  // If one of the effects exists, this very work has committed before: a repetition, which the record would refuse, too.
  if (isViolationOf(error, { schema, table: "outbox", constraint: "outbox_pkey" }))
    return { kind: "lost", value } as const;
  return refused(schema, sessions, outcome);
}
