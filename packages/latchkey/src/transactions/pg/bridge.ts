/** The transaction bridge over a `pg` pool: BEGIN rides with the opening statements, COMMIT with the closing ones. */
import { sqlStateOf } from "../../attempt/sql-state.ts";
import { LatchkeyError, StoreError } from "../../errors.ts";
import { guardClient } from "../guard-client.ts";
import { certaintyOf } from "../sql-errors.ts";
import type {
  BridgeOutcome,
  BridgeRequest,
  BridgeSession,
  BridgeWork,
  TransactionBridge,
} from "../transaction.ts";
import type { PgClient, PgPool, PgTx } from "./client.ts";
import type { Connection, Connections } from "./connections.ts";
import { begin, commit, rollback } from "./control-statements.ts";
import { type FlightReply, FlightTimeout } from "./flight.ts";
import { HandlerStatements } from "./handler-statements.ts";
import type { RepeatedStatements } from "./repeated-statements.ts";
import { TransactionWatch } from "./transaction-watch.ts";

/** A connection that died while it was idle, or that somebody gave back in the middle of a transaction, costs a try. */
const openTriesMax = 3;

/** How long an abandoned transaction may take to end of itself before its connection is cut. */
const goodbyeMs = 200;

/** `connect` and `end` would take the connection out of Latchkey's hands, as `release` would. */
const rules = { statementMethods: ["query"], refusedMethods: ["release", "end", "connect"] };

export function pgBridge<P extends PgPool>(connections: Connections): TransactionBridge<PgTx<P>> {
  return {
    name: "pg",
    commitNotice: true,
    async transact(request, work) {
      const leave = await connections.enterTransaction();
      try {
        const opened = await open(connections, request);
        return await inTransaction(opened, connections.repeatedStatements, work);
      } finally {
        leave();
      }
    },
  };
}

interface Opened {
  readonly connection: Connection;
  readonly rows: BridgeSession<never>["opened"];
}

async function open(connections: Connections, request: BridgeRequest): Promise<Opened> {
  const statements = [begin(request.isolation), ...request.opening];
  for (let tries = 1; ; tries++) {
    const connection = await connections.take();
    let reply = await connection.fly(statements);
    if (reply.forgotten) {
      await connection.fly([rollback]);
      reply = await connection.fly(statements);
    }
    const joined = reply.notices.some(({ code }) => code === "25001");
    if (reply.error === null && !joined)
      return { connection, rows: reply.replies.slice(1).map(({ rows }) => rows) };
    if (reply.error !== null && reply.status !== null) {
      await endPolitely(connection, reply);
      throw openError(reply);
    }
    connection.destroy();
    if (tries === openTriesMax || reply.error instanceof FlightTimeout) throw openError(reply);
  }
}

function openError(reply: FlightReply): StoreError {
  const after = reply.status === null ? "gone" : "answered";
  const certainty = reply.sent ? certaintyOf(reply.error, "statement", after) : "not_sent";
  return new StoreError(certainty, { cause: reply.error, message: "The transaction could not be opened" });
}

async function inTransaction<P extends PgPool, T>(
  { connection, rows }: Opened,
  repeated: RepeatedStatements | null,
  work: (session: BridgeSession<PgTx<P>>) => Promise<BridgeWork<T>>,
): Promise<BridgeOutcome<T>> {
  const { client } = connection;
  const statements = repeated === null ? null : new HandlerStatements(client, repeated);
  const send = statements === null ? undefined : statements.send.bind(statements);
  const { tx, used, revoke } = guardClient(client, rules, send);
  const watch = new TransactionWatch(client.connection);
  let result: BridgeWork<T>;
  try {
    result = await work({ opened: rows, tx: asUsersClient<P>(tx), used, revoke });
  } catch (error) {
    revoke();
    await rollBack(connection, watch, error);
    throw error;
  }
  revoke();
  // The handler has seen an error that it should not have: whatever it made of it, it runs again.
  const failure = statements?.failure ?? null;
  if (failure !== null && result.end !== "abandon") {
    await rollBack(connection, watch, failure);
    return refusedByName(result.value, failure);
  }
  switch (result.end) {
    case "rollback":
      await rollBack(connection, watch, undefined);
      return { kind: "rolled_back", value: result.value };
    case "abandon":
      await abandon(connection, watch);
      return { kind: "rolled_back", value: result.value };
    case "commit": {
      const outcome = await finish(connection, watch, result);
      // Of a statement that nobody has waited for.
      const late = outcome.kind === "refused" ? (statements?.failure ?? null) : null;
      return late === null ? outcome : refusedByName(result.value, late);
    }
    default:
      return result satisfies never;
  }
}

function refusedByName<T>(value: T, error: unknown): BridgeOutcome<T> {
  return { kind: "refused", value, sqlState: "26000", during: "closing", error };
}

/** What Latchkey knows as `PgClient` is a client of the user's own pool. */
function asUsersClient<P>(client: PgClient): PgTx<P> {
  return client as PgClient & PgTx<P>;
}

/** @throws {LatchkeyError} `transaction-changed` when the handler has committed: nothing is left to roll back. */
async function rollBack(connection: Connection, watch: TransactionWatch, cause: unknown): Promise<void> {
  const reply = await connection.fly([rollback], { mayStart: () => watch.stopUnended() });
  if (reply.error === null && reply.status === "I") connection.giveBack();
  else connection.destroy();
  if (!watch.stopUnended()) throw new LatchkeyError("transaction-changed", { cause });
}

/** Ends the connection. The key is free sooner for a word of goodbye, if the handler is not in the middle of a query. */
async function abandon(connection: Connection, watch: TransactionWatch): Promise<void> {
  await connection.fly([rollback], { timeoutMs: goodbyeMs, mayStart: () => watch.stopUnended() });
  connection.destroy();
  if (!watch.stopUnended()) throw new LatchkeyError("transaction-changed");
}

/** After an error that the server survived. */
async function endPolitely(connection: Connection, reply: FlightReply): Promise<void> {
  const idle = reply.status === "I" || (await connection.fly([rollback])).status === "I";
  if (idle) connection.giveBack();
  else connection.destroy();
}

type CommitWork<T> = Extract<BridgeWork<T>, { readonly end: "commit" }>;

async function finish<T>(
  connection: Connection,
  watch: TransactionWatch,
  { value, closing }: CommitWork<T>,
): Promise<BridgeOutcome<T>> {
  const reply = await connection.fly([...closing, commit], { mayStart: () => watch.stopUnended() });
  const outcome = outcomeOf(value, reply, closing.length, !watch.stopUnended(), connection.failure);
  if (outcome.kind === "in_doubt" || reply.status === null) connection.destroy();
  else if (reply.status === "I") connection.giveBack();
  else await endPolitely(connection, reply);
  return outcome;
}

function outcomeOf<T>(
  value: T,
  reply: FlightReply,
  closingCount: number,
  endedBefore: boolean,
  failure: unknown,
): BridgeOutcome<T> {
  if (!reply.sent) {
    // COMMIT has never left this process, so what is left of the transaction ends with its connection.
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
  { notices, replies }: FlightReply,
  closingCount: number,
): BridgeOutcome<T> {
  const has = (wanted: string) => notices.some(({ code, after }) => code === wanted && after >= closingCount);
  if (has("25P01")) {
    const error = new Error("There was no transaction to commit");
    return { kind: "refused", value, sqlState: "25P01", during: "commit", error };
  }
  if (has("01000")) {
    // "canceling wait for synchronous replication": committed here, perhaps not where the next primary is.
    return { kind: "in_doubt", value, error: new Error("COMMIT came with a warning (01000)") };
  }
  return { kind: "committed", value, closed: replies.slice(0, closingCount).map(({ rows }) => rows) };
}

function outcomeOfError<T>(value: T, reply: FlightReply, closingCount: number): BridgeOutcome<T> {
  const { error, status, replies } = reply;
  if (status === null || certaintyOf(error, "commit", "answered") !== "rolled_back") {
    return { kind: "in_doubt", value, error };
  }
  const during = replies.length < closingCount ? "closing" : "commit";
  // Idle after a refused statement, and COMMIT was skipped: there was no transaction around it.
  const outside = during === "closing" && status === "I";
  const sqlState = outside ? "25P01" : reply.forgotten ? "26000" : (sqlStateOf(error) ?? "XX000");
  return { kind: "refused", value, sqlState, during, error };
}
