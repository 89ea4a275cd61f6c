/** One transaction through postgres.js: BEGIN with the opening statements, COMMIT with the closing ones. */
import { StoreError } from "../../errors.ts";
import { commit, rollback } from "../pg/control-statements.ts";
import { decoders } from "../pg/wire-messages.ts";
import { certaintyOf, isForbidden, withServersWords } from "../sql-errors.ts";
import { sqlStateOf } from "../sql-state.ts";
import type {
  BridgeOutcome,
  BridgeRequest,
  BridgeSession,
  BridgeWork,
  SqlRow,
  SqlValue,
} from "../transaction.ts";
import type { Client, Result } from "./client.ts";
import { type Limits, OpenConnection, type Reply } from "./connection.ts";
import { guardedTx } from "./tx.ts";

type Work<T> = (session: BridgeSession<object>) => Promise<BridgeWork<T>>;

export async function transact<T>(
  client: Client,
  limits: Limits,
  request: BridgeRequest,
  work: Work<T>,
): Promise<BridgeOutcome<T>> {
  const { connection, results } = await open(client, limits, request);
  const opened = rowsOf(client, results);
  const { tx, used, revoke } = guardedTx(client, connection);
  let result: BridgeWork<T>;
  try {
    result = await work({ opened, tx, used, revoke });
  } catch (error) {
    revoke();
    await rollBack(connection);
    throw error;
  }
  revoke();
  switch (result.end) {
    case "rollback":
      await rollBack(connection);
      return { kind: "rolled_back", value: result.value };
    case "abandon":
      abandon(connection);
      return { kind: "rolled_back", value: result.value };
    case "commit":
      return finish(client, connection, result);
    default:
      return result satisfies never;
  }
}

/** Each connection whose session was left with a role without privileges by a handler costs one try. */
const openTriesMax = 3;

/** @throws {StoreError} */
async function open(client: Client, limits: Limits, request: BridgeRequest) {
  for (let tries = 1; ; tries++) {
    const connection = new OpenConnection(client, limits);
    const replies = await connection.open(request);
    const failed = replies.find(({ error }) => error !== null);
    if (failed === undefined) return { connection, results: resultsOf(replies).slice(1) };
    const { error } = failed;
    const certainty = certaintyOf(error, "statement", connection.closed === null ? "answered" : "gone");
    if (isForbidden(error)) connection.destroy();
    else await rollBack(connection);
    if (isForbidden(error) && tries < openTriesMax) continue;
    const message = withServersWords("The transaction could not be opened", error);
    throw new StoreError(certainty, { cause: error, message });
  }
}

/** postgres.js returns the connection to the pool when the reply arrives. */
async function rollBack(connection: OpenConnection): Promise<void> {
  if (connection.closed !== null) return;
  if ((await connection.held()) !== null) return connection.destroy();
  const [reply] = await connection.sendAll([rollback]);
  if (reply?.error === null) connection.left();
  else connection.destroy();
}

/** Needs no reply, because the handler may be in the middle of a statement that does not end. */
function abandon(connection: OpenConnection): void {
  if (connection.closed !== null) return;
  connection.keep();
  connection.cancelAll();
  void connection.sendAll([rollback]).finally(() => connection.destroy());
}

async function finish<T>(
  client: Client,
  connection: OpenConnection,
  { value, closing }: Extract<BridgeWork<T>, { readonly end: "commit" }>,
): Promise<BridgeOutcome<T>> {
  const held = await connection.held();
  if (held !== null) {
    connection.destroy();
    return { kind: "refused", value, sqlState: "08003", during: "closing", error: held };
  }
  if (connection.closed !== null) {
    // COMMIT has never left this process, so the transaction has ended with its connection.
    const { error } = connection.closed;
    return { kind: "refused", value, sqlState: sqlStateOf(error) ?? "08003", during: "closing", error };
  }
  const replies = await connection.sendAll([...closing, commit]);
  const committed = replies.at(-1);
  const failed = replies.find(({ error }) => error !== null);
  if (failed !== undefined) return refusedBy(connection, value, failed, failed === committed);
  connection.left();
  const tag = committed?.result?.command;
  if (tag !== "COMMIT") {
    const error = new Error(`COMMIT was answered with ${tag}`);
    return { kind: "refused", value, sqlState: "25P02", during: "commit", error };
  }
  return { kind: "committed", value, closed: rowsOf(client, resultsOf(replies).slice(0, -1)) };
}

function refusedBy<T>(
  connection: OpenConnection,
  value: T,
  { error }: Reply,
  isCommit: boolean,
): BridgeOutcome<T> {
  const { closed } = connection;
  const certainty = certaintyOf(error, "commit", closed === null ? "answered" : "gone");
  if (closed !== null || certainty !== "rolled_back") {
    connection.destroy();
    return { kind: "in_doubt", value, error };
  }
  connection.left();
  const during = isCommit ? "commit" : "closing";
  return { kind: "refused", value, sqlState: sqlStateOf(error) ?? "XX000", during, error };
}

function resultsOf(replies: readonly Reply[]): readonly Result[] {
  return replies.flatMap(({ result }) => (result === null ? [] : [result]));
}

function rowsOf(client: Client, results: readonly Result[]): readonly (readonly SqlRow[])[] {
  const nameOf = client.options.transform.column.from;
  return results.map((result) => {
    const columns = result.columns ?? [];
    return result.map((values) => {
      const entries = columns.map(
        ({ name, type }, index) => [name, decoded(type, values[index] ?? null)] as const,
      );
      const row: SqlRow = Object.fromEntries(entries);
      return nameOf === undefined ? row : underOwnNames(row, nameOf);
    });
  });
}

function decoded(type: number, bytes: Uint8Array | null): SqlValue {
  if (bytes === null) return null;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  return decoders[type]?.(text) ?? text;
}

/** A row whose columns the user's `transform` has renamed, under the names that Latchkey has given them. */
function underOwnNames(row: SqlRow, nameOf: (name: string) => string): SqlRow {
  return new Proxy(row, {
    get: (target, name) => (typeof name === "string" ? (target[name] ?? target[nameOf(name)]) : undefined),
    has: (target, name) => typeof name === "string" && (name in target || nameOf(name) in target),
  });
}
