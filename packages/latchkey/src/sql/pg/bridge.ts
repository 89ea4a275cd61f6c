/** The transaction bridge over a `pg` pool: BEGIN is sent with the opening statements, COMMIT with the closing ones. */

import { LatchkeyError } from "../../errors.ts";
import { type GuardRules, guardClient } from "../guard-client.ts";
import { certaintyOf, isForbidden } from "../sql-errors.ts";
import { sqlStateOf } from "../sql-state.ts";
import type {
  BridgeOutcome,
  BridgePart,
  BridgeRequest,
  BridgeSession,
  BridgeWork,
  OptimisticSession,
  SqlStatement,
  TransactionBridge,
} from "../transaction.ts";
import type { PgClient, PgPool, PgTx } from "./client.ts";
import { TransactionWatch } from "./connection-state.ts";
import type { Connection, Connections } from "./connections.ts";
import { begin, commit, hasJoined, noteIsolation, openError, rollback } from "./control-statements.ts";
import { HandlerStatements, type SentStatements } from "./handler-statements.ts";
import { OptimisticOpening } from "./optimistic-opening.ts";
import { PartedTransaction } from "./parts.ts";
import { type PipelineReply, PipelineTimeout } from "./pipeline.ts";
import type { RepeatedStatements } from "./statement-names.ts";
import { namingSchemas, sameSchemas } from "./statement-names.ts";

/** A connection that died while it was idle, or that was released in the middle of a transaction, costs one try. */
const openTriesMax = 3;

/** How long an abandoned transaction may take to end by itself before its connection is destroyed. */
const rollbackGraceMs = 200;

/** `connect` and `end` would take the connection out of Latchkey's hands, as `release` would. */
const rules: GuardRules = { statementMethods: ["query"], refusedMethods: ["release", "end", "connect"] };

export function pgBridge<P extends PgPool>(connections: Connections): TransactionBridge<PgTx<P>> {
  return {
    name: "pg",
    commitNotice: true,
    verify: () => connections.warnOfEndlessConnects(),
    async transact(request, work) {
      const leave = await connections.enterTransaction();
      try {
        const { ready, rows } = await open(connections, request);
        return await runWork<P, Awaited<ReturnType<typeof work>>["value"]>(ready, (session) =>
          work({ opened: rows, ...session }),
        );
      } finally {
        leave();
      }
    },
    async transactParts(request, work) {
      const leave = await connections.enterTransaction();
      try {
        const { ready, rows } = await open(connections, request);
        return await inParts<P, Awaited<ReturnType<typeof work>>["value"]>(ready, (part) =>
          work({ opened: rows, part }),
        );
      } finally {
        leave();
      }
    },
    async transactOptimistic(request, admit, work) {
      const leave = await connections.enterTransaction();
      try {
        const connection = await connections.take();
        const optimistic = new OptimisticOpening(connection, request, admit);
        const { repeatedStatements: repeated } = connections;
        const schemas = () => (repeated === null ? null : optimistic.schemas);
        return await runWork({ connection, repeated, schemas, optimistic }, (session) =>
          work({ admitted: () => optimistic.open(), ...session }),
        );
      } finally {
        leave();
      }
    },
  };
}

interface Opened {
  readonly ready: ReadyConnection;
  readonly rows: BridgeSession<never>["opened"];
}

async function open(connections: Connections, request: BridgeRequest): Promise<Opened> {
  const statements = [begin(request.isolation), ...request.opening];
  for (let tries = 1; ; tries++) {
    const connection = await connections.take();
    let reply = await connection.sendPipeline(statements);
    if (reply.statementsUnknown) {
      await connection.sendPipeline([rollback]);
      reply = await connection.sendPipeline(statements);
    }
    if (reply.error === null && !hasJoined(reply)) {
      const rows = reply.replies.slice(1).map((one) => one.rows);
      noteIsolation(connection, request, rows);
      const { repeatedStatements: repeated } = connections;
      const schemas = repeated === null ? null : namingSchemas(connection.state, rows[0]?.[0]);
      return { ready: { connection, repeated, schemas: () => schemas, optimistic: null }, rows };
    }
    const forbidden = tries === 1 && isForbidden(reply.error);
    if (reply.error !== null && reply.status !== null && !forbidden) {
      await rollbackAndRelease(connection, reply);
      throw openError(reply);
    }
    connection.destroy();
    if (tries === openTriesMax || reply.error instanceof PipelineTimeout) throw openError(reply);
  }
}

/** A connection that a handler can be started on. */
interface ReadyConnection {
  readonly connection: Connection;
  readonly repeated: RepeatedStatements | null;
  /** The schemas in which named statements look for their tables; null if no statement may have a name. */
  readonly schemas: () => string | null;
  /** Null if the transaction is open. */
  readonly optimistic: OptimisticOpening | null;
}

async function runWork<P extends PgPool, T>(
  { connection, repeated, schemas, optimistic }: ReadyConnection,
  work: (session: Omit<OptimisticSession<PgTx<P>>, "admitted">) => Promise<BridgeWork<T>>,
): Promise<BridgeOutcome<T>> {
  const { client } = connection;
  const statements = new HandlerStatements(
    client,
    repeated,
    () => schemas() !== null && !mayHaveChangedSession(),
    optimistic,
  );
  const { tx, used, mayHaveChangedSession, revoke } = guardClient(
    client,
    rules,
    statements.send.bind(statements),
  );
  const watch = new TransactionWatch(client.connection);
  let result: BridgeWork<T>;
  try {
    result = await work({ tx: asUsersClient<P>(tx), used, mayHaveChangedSession, revoke });
  } catch (error) {
    revoke();
    if (optimistic?.opened === false) endUnopened(connection, optimistic, watch);
    else await rollBack({ connection, watch, statements }, error);
    throw error;
  }
  revoke();
  if (optimistic?.opened === false) {
    endUnopened(connection, optimistic, watch);
    if (result.end === "commit") throw notAdmitted();
    return { kind: "rolled_back", value: result.value };
  }
  if (optimistic?.admitted === false && result.end === "commit") {
    await rollBack({ connection, watch, statements });
    throw notAdmitted();
  }
  const ending = { connection, watch, statements, mayHaveChangedSession, schemas };
  return await endTransaction(ending, result);
}

async function inParts<P extends PgPool, T>(
  { connection, repeated, schemas }: ReadyConnection,
  work: (part: () => BridgePart<PgTx<P>>) => Promise<BridgeWork<T>>,
): Promise<BridgeOutcome<T>> {
  const watch = new TransactionWatch(connection.client.connection);
  const mayName = () => schemas() !== null;
  const parted = new PartedTransaction({ connection, watch, repeated, mayName, rules });
  let result: BridgeWork<T>;
  try {
    result = await work(() => {
      const part = parted.part();
      return { ...part, tx: asUsersClient<P>(part.tx) };
    });
  } catch (error) {
    parted.revoke();
    await parted.close(true);
    await rollBack({ connection, watch, statements: parted }, error);
    throw error;
  }
  parted.revoke();
  if (parted.isStuck && result.end === "rollback") result = { end: "abandon", value: result.value };
  await parted.close(result.end !== "abandon");
  const { mayHaveChangedSession } = parted;
  return endTransaction({ connection, watch, statements: parted, mayHaveChangedSession, schemas }, result);
}

function notAdmitted(): TypeError {
  return new TypeError("A transaction that was not admitted cannot be committed");
}

/** Ends a transaction of which nothing has been sent, or whose state on the server is unknown. */
function endUnopened(connection: Connection, optimistic: OptimisticOpening, watch: TransactionWatch): void {
  watch.stopUnended();
  if (optimistic.sent) connection.destroy();
  else connection.giveBack();
}

/** A `PgClient` is a client of the user's own pool, so it has that pool's type of client. */
function asUsersClient<P>(client: PgClient): PgTx<P> {
  return client as PgClient & PgTx<P>;
}

/** A transaction whose work is over. */
interface Ending {
  readonly connection: Connection;
  readonly watch: TransactionWatch;
  readonly statements: SentStatements;
  readonly mayHaveChangedSession: () => boolean;
  /** The schemas in which named statements look for their tables; null if no statement may have a name. */
  readonly schemas: () => string | null;
}

async function endTransaction<T>(ending: Ending, result: BridgeWork<T>): Promise<BridgeOutcome<T>> {
  const { connection, watch, statements, mayHaveChangedSession, schemas } = ending;
  // The handler got an error that may be due to a statement's name: whatever it did with the error, it runs again.
  const { failure } = statements;
  if (failure !== null && result.end !== "abandon") {
    await rollBack(ending, failure);
    return refusedByName(result.value, failure);
  }
  switch (result.end) {
    case "rollback":
      await rollBack(ending);
      return { kind: "rolled_back", value: result.value };
    case "abandon":
      statements.openQueries.abandon();
      await abandon(connection, watch);
      return { kind: "rolled_back", value: result.value };
    case "commit": {
      const namedIn = statements.named && !mayHaveChangedSession() ? schemas() : null;
      // After an error the closing statements may begin by undoing it, and until then any other one fails.
      const isFailed = connection.state?.status === "E";
      const guard = namedIn === null || isFailed ? [] : [sameSchemas(namedIn)];
      const outcome = await finish(ending, result, guard);
      // The handler may not have awaited the statement that failed.
      const late = outcome.kind === "refused" ? statements.failure : null;
      return late === null ? outcome : refusedByName(result.value, late);
    }
    default:
      return result satisfies never;
  }
}

function refusedByName<T>(value: T, error: unknown): BridgeOutcome<T> {
  return { kind: "refused", value, sqlState: "26000", during: "closing", error };
}

/** @throws {LatchkeyError} `transaction-changed` when the handler has committed: nothing is left to roll back. */
async function rollBack(
  { connection, watch, statements }: Pick<Ending, "connection" | "watch" | "statements">,
  cause?: unknown,
): Promise<void> {
  const { openQueries } = statements;
  const { blocked } = openQueries;
  const reply = await connection.sendPipeline([rollback], { canSend: () => watch.stopUnended(), blocked });
  openQueries.abandon();
  if (reply.error === null && reply.status === "I") connection.giveBack();
  else connection.destroy();
  if (!watch.stopUnended()) throw new LatchkeyError("transaction-changed", { cause });
}

/** Ends the connection. Tries ROLLBACK first: unless the handler is in the middle of a query, that frees the key sooner. */
async function abandon(connection: Connection, watch: TransactionWatch): Promise<void> {
  await connection.sendPipeline([rollback], {
    timeoutMs: rollbackGraceMs,
    canSend: () => watch.stopUnended(),
  });
  connection.destroy();
  if (!watch.stopUnended()) throw new LatchkeyError("transaction-changed");
}

/** After an error that the server survived. */
async function rollbackAndRelease(connection: Connection, reply: PipelineReply): Promise<void> {
  const idle = reply.status === "I" || (await connection.sendPipeline([rollback])).status === "I";
  if (idle) connection.giveBack();
  else connection.destroy();
}

type CommitWork<T> = Extract<BridgeWork<T>, { readonly end: "commit" }>;

async function finish<T>(
  { connection, watch, statements }: Ending,
  { value, closing }: CommitWork<T>,
  guard: readonly SqlStatement[],
): Promise<BridgeOutcome<T>> {
  const { openQueries } = statements;
  const { blocked } = openQueries;
  const all = [...guard, ...closing];
  const reply = await connection.sendPipeline([...all, commit], {
    canSend: () => watch.stopUnended(),
    blocked,
  });
  openQueries.abandon();
  const outcome = outcomeOf(value, reply, all.length, !watch.stopUnended(), connection.failure);
  if (outcome.kind === "in_doubt" || reply.status === null) connection.destroy();
  else if (reply.status === "I") connection.giveBack();
  else await rollbackAndRelease(connection, reply);
  if (outcome.kind === "refused" && outcome.sqlState === "22012" && reply.replies.length < guard.length) {
    statements.nameNothing();
    return refusedByName(value, outcome.error);
  }
  return outcome.kind === "committed" ? { ...outcome, closed: outcome.closed.slice(guard.length) } : outcome;
}

function outcomeOf<T>(
  value: T,
  reply: PipelineReply,
  closingCount: number,
  endedBefore: boolean,
  failure: unknown,
): BridgeOutcome<T> {
  if (!reply.sent) {
    // COMMIT has never left this process, so the transaction, if it is still open, ends with its connection.
    const error = endedBefore ? new LatchkeyError("transaction-changed") : (failure ?? reply.error);
    const sqlState = endedBefore ? "25P01" : (sqlStateOf(error) ?? "08003");
    return { kind: "refused", value, sqlState, during: "closing", error };
  }
  if (reply.error !== null) return outcomeOfError(value, reply, closingCount);
  const tag = reply.replies[closingCount]?.tag;
  if (tag !== "COMMIT") {
    const error = new Error(`COMMIT was answered with ${tag}`);
    return { kind: "refused", value, sqlState: "25P02", during: "commit", error };
  }
  return outcomeOfCommit(value, reply, closingCount);
}

function outcomeOfCommit<T>(
  value: T,
  { notices, replies }: PipelineReply,
  closingCount: number,
): BridgeOutcome<T> {
  const has = (wanted: string) => notices.some(({ code, after }) => code === wanted && after >= closingCount);
  if (has("25P01")) {
    const error = new Error("There was no transaction to commit");
    return { kind: "refused", value, sqlState: "25P01", during: "commit", error };
  }
  if (has("01000")) {
    // "canceling wait for synchronous replication": committed on this server, perhaps not on the next primary.
    return { kind: "in_doubt", value, error: new Error("COMMIT came with a warning (01000)") };
  }
  return { kind: "committed", value, closed: replies.slice(0, closingCount).map(({ rows }) => rows) };
}

function outcomeOfError<T>(value: T, reply: PipelineReply, closingCount: number): BridgeOutcome<T> {
  const { error, status, replies } = reply;
  if (status === null || certaintyOf(error, "commit", "answered") !== "rolled_back") {
    return { kind: "in_doubt", value, error };
  }
  const during = replies.length < closingCount ? "closing" : "commit";
  // The server is idle after a refused statement although COMMIT was skipped, so no transaction was open around it.
  const outside = during === "closing" && status === "I";
  const sqlState = outside ? "25P01" : reply.statementsUnknown ? "26000" : (sqlStateOf(error) ?? "XX000");
  return { kind: "refused", value, sqlState, during, error };
}
