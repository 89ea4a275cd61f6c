/** `transaction` execution over any bridge: what is said with BEGIN, what with COMMIT, and what each outcome means. */
import type { RecordKey } from "../../engine/record.ts";
import { refusalOf } from "../../transactions/sql-errors.ts";
import type {
  BridgeOutcome,
  BridgeSession,
  BridgeWork,
  SqlRow,
  SqlStatement,
  TransactionBridge,
} from "../../transactions/transaction.ts";
import type {
  OpenTransaction,
  Reading,
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../store.ts";
import type { PostgresExecutor } from "./executor.ts";
import { booleanOf, numberOf, onlyRow, textOf } from "./rows.ts";
import { asSchemaError, type Settings } from "./settings.ts";
import type { transactionStatements } from "./transaction-statements.ts";
import { guardValues, keyValues, lifeValues, retentionValues } from "./values.ts";

export interface TransactionParts<Tx> {
  readonly bridge: TransactionBridge<Tx>;
  readonly executor: PostgresExecutor;
  readonly settings: Settings;
  readonly statements: ReturnType<typeof transactionStatements>;
  readonly read: (key: RecordKey) => Promise<Reading>;
  readonly readingOf: (rows: readonly SqlRow[] | undefined) => Reading;
}

/** Postgres keeps its time-outs in 32 bits. */
const serverTimeoutMaxMs = 2_147_483_647;

export function postgresTransactions<Tx>(parts: TransactionParts<Tx>): TransactionSupport<Tx> {
  return {
    run: (request, work) => run(parts, request, work),

    async resolve(key, id, fence, timeoutMs) {
      const { statements, settings, executor } = parts;
      const lock = await settings.lockOf(key).catch(() => null);
      if (lock === null) return "in_doubt";
      const look = statements.read.bind(keyValues(key));
      const rows = await executor.settle(
        (leftMs) => [
          statements.waitSettings.bind({ limit_ms: timeoutText(leftMs) }),
          statements.waitLock.bind({ lock }),
          // Another statement, whose snapshot is younger than the lock.
          look,
          // Its own COMMIT is replicated after everything that was read.
          statements.barrier.bind({}),
        ],
        timeoutMs,
      );
      if (rows === null) return "in_doubt";
      const { record } = parts.readingOf(rows[2]);
      const own = record?.id === id && record.fence.token === fence.token;
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
  const lock = await settings.lockOf(request.key);
  // At SERIALIZABLE a look-up inside would make different keys of a small table fail each other.
  const earlier = request.isolation === "serializable" ? await parts.read(request.key) : null;
  const opening = [
    statements.open.bind({ lock, limit_ms: timeoutText(request.idleLimitMs) }),
    ...(earlier === null ? [statements.read.bind(keyValues(request.key))] : []),
    ...(request.savepoint ? [statements.savepoint.bind({})] : []),
  ];
  let started = false;
  try {
    const outcome = await bridge.transact<T>({ isolation: request.isolation, opening }, (session) => {
      started = true;
      return inTransaction(parts, session, earlier, work);
    });
    return outcomeOf(outcome);
  } catch (error) {
    throw started ? error : asSchemaError(error);
  }
}

async function inTransaction<Tx, T>(
  parts: TransactionParts<Tx>,
  session: BridgeSession<Tx>,
  earlier: Reading | null,
  work: (open: OpenTransaction<Tx>) => Promise<TransactionWork<T>>,
): Promise<BridgeWork<T>> {
  const { tx, used, revoke } = session;
  const opened = onlyRow(session.opened[0]);
  const reading = earlier ?? parts.readingOf(session.opened[1]);
  const result = await work({ reading, exclusive: booleanOf(opened, "exclusive"), tx, used, revoke });
  if (result.end !== "commit") return result;
  return { end: "commit", value: result.value, closing: closing(parts, textOf(opened, "began"), result) };
}

function closing<Tx, T>(
  { statements }: TransactionParts<Tx>,
  began: string,
  commit: Extract<TransactionWork<T>, { readonly end: "commit" }>,
): readonly SqlStatement[] {
  const complete = statements.complete.bind({
    ...lifeValues(commit.life),
    ...guardValues(commit.replaces),
    ...retentionValues(commit.retention),
    answer: commit.answer,
    began,
  });
  return commit.undoWrites ? [statements.undo.bind({}), complete] : [complete];
}

function outcomeOf<T>(outcome: BridgeOutcome<T>): TransactionOutcome<T> {
  const { kind, value } = outcome;
  switch (kind) {
    case "committed":
      return { kind, value, expiresAt: numberOf(onlyRow(outcome.closed.at(-1)), "expires_at") };
    case "rolled_back":
    case "in_doubt":
      return outcome;
    case "refused":
      return refused(outcome);
    default:
      return kind satisfies never;
  }
}

function refused<T>({
  value,
  sqlState,
  during,
  error,
}: Extract<BridgeOutcome<T>, { readonly kind: "refused" }>): TransactionOutcome<T> {
  const refusal = refusalOf(sqlState);
  switch (refusal) {
    case "serialization":
    case "aborted":
      return { kind: "refused", value, because: refusal, error };
    case "guard":
    case "changed":
      // At COMMIT itself a user's deferred trigger may raise the same state; that no transaction is open is ours alone.
      if (during === "commit" && sqlState !== "25P01")
        return { kind: "refused", value, because: "other", error };
      return refusal === "guard" ? { kind: "lost", value } : { kind: "changed", value };
    case "other":
      return { kind: "refused", value, because: "other", error };
    default:
      return refusal satisfies never;
  }
}

function timeoutText(milliseconds: number): string {
  return String(Math.min(serverTimeoutMaxMs, Math.max(1, Math.ceil(milliseconds))));
}
