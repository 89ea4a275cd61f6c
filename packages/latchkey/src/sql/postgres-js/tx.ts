/** The handler's `tx`: as in the callback of `sql.begin()`, but on a connection whose transaction Latchkey has opened. */
import { LatchkeyError } from "../../errors.ts";
import { refusedEnd } from "../refused-end.ts";
import { findTransactionControl } from "../transaction-control.ts";
import { type Client, isQuery, type Query } from "./client.ts";
import type { OpenConnection } from "./connection.ts";

export interface GuardedTx {
  readonly tx: object;
  used(): boolean;
  revoke(): void;
}

/** `TransactionSql`, as Latchkey builds it. */
interface Tx {
  (first: unknown, ...rest: unknown[]): unknown;
  unsafe(text: string, ...rest: unknown[]): Query;
}

type Nested = (tx: Tx) => unknown;

export function guardedTx(client: Client, connection: OpenConnection): GuardedTx {
  let used = false;
  let revoked = false;
  const handler = (query: Query) => {
    const control = findTransactionControl(statementText(query));
    if (revoked) return query.reject(new LatchkeyError("tx-revoked"));
    if (control !== null) {
      const message = `${control} was sent through a handler's \`tx\``;
      return query.reject(new LatchkeyError("transaction-control", { message }));
    }
    used = true;
    return connection.send(query);
  };
  const inside = <T>(value: T): T => {
    if (isQuery(value)) value.handler = Object.assign(handler, { debug: value.handler.debug });
    return value;
  };
  const tx: Tx = Object.assign((first: unknown, ...rest: unknown[]) => inside(client(first, ...rest)), {
    types: client.types,
    typed: client.types,
    array: client.array,
    json: client.json,
    unsafe: (text: string, ...rest: never[]) => inside(client.unsafe(text, ...rest)),
    notify: (channel: string, payload: string) =>
      tx.unsafe("select pg_notify($1, $2)", [channel, `${payload}`]),
    // postgres.js reads the file when the query is sent, past the guard.
    file() {
      throw new TypeError(
        "`file()` is not supported in a handler: read the file, and pass its text to `tx.unsafe()`",
      );
    },
    savepoint: savepoints(() => tx),
    prepare() {
      throw refusedEnd("prepare()");
    },
  });
  return {
    tx,
    used: () => used,
    revoke() {
      revoked = true;
    },
  };
}

/** `savepoint()` of one transaction. An error that `work` has swallowed is thrown all the same, as in postgres.js. */
function savepoints(tx: () => Tx) {
  let count = 0;
  return async (name: string | Nested, work?: Nested): Promise<unknown> => {
    const nested = typeof name === "function" ? name : work;
    count += 1;
    const savepoint = `"latchkey_${count}"`;
    await tx().unsafe(`savepoint ${savepoint}`);
    try {
      const value = await nested?.(tx());
      const all = Array.isArray(value) ? await Promise.all(value) : value;
      await tx().unsafe(`release ${savepoint}`);
      return all;
    } catch (error) {
      // Without it the transaction stays aborted, and its COMMIT is refused.
      await tx()
        .unsafe(`rollback to ${savepoint}`)
        .catch(() => {});
      throw error;
    }
  };
}

/** The statement's text with a placeholder for each value, and with the texts of its fragments. */
function statementText({ strings, args }: Query): string {
  return strings
    .map((piece, index) => {
      if (index === 0) return piece;
      const value = args[index - 1];
      return (isQuery(value) ? statementText(value) : "$1") + piece;
    })
    .join("");
}
