/**
 * Knex's own transaction on a `pg` client whose transaction Latchkey has opened. Knex is given a facade for that
 * client: its BEGIN is not sent, everything else goes to the guarded client. So the guard sees every statement as the
 * driver does, whichever builder made it and whenever it is sent.
 */
import type { LatchkeyError } from "../../errors.ts";
import { callBack, type QueryClient, queryWithCallback } from "../pg-clients/callback-queries.ts";
import { emptyResult } from "../pg-clients/empty-result.ts";
import { refusedEnd, refusedRollback } from "../refused-end.ts";
import type { KnexDatabase } from "./pool.ts";

/** The argument of the callback of `knex.transaction()`. */
export type KnexTx<K extends KnexDatabase> = K["transaction"] extends (
  scope: (trx: infer Tx) => infer _,
  ...config: never[]
) => unknown
  ? Tx
  : never;

/** Knex's transaction, as far as Latchkey changes it. */
interface KnexTransaction {
  commit(value?: unknown): unknown;
  rollback(error?: unknown): unknown;
  isCompleted(): boolean;
  executionPromise: Promise<unknown>;
}

interface Transacting {
  transaction(scope: null, config: { readonly connection: object }): Promise<KnexTransaction>;
}

export interface OpenedKnex<Tx> {
  readonly trx: Tx;
  /** The error with which a call of `trx.rollback()` was refused; null if there was no call. */
  refusal(): LatchkeyError | null;
  /** Settles `trx.executionPromise`. Called at the end of the transaction, not of the handler. */
  end(error: unknown): void;
}

/** @throws {TypeError} when Knex opens its transaction on something else than the client it was given */
export async function openKnex<K extends KnexDatabase>(
  knex: K,
  client: QueryClient,
): Promise<OpenedKnex<KnexTx<K>>> {
  const facade = clientFacadeFor(client);
  const trx = await (knex as unknown as Transacting).transaction(null, { connection: facade.client });
  if (!facade.started()) throw new TypeError("This version of Knex is not supported: it hides its client");
  const { call, refusal } = refusedRollback("rollback()");
  trx.rollback = call;
  trx.commit = async () => {
    throw refusedEnd("commit()");
  };
  let ended = false;
  trx.isCompleted = () => ended;
  const execution = Promise.withResolvers<void>();
  // Few handlers await it, and an unhandled rejection would end the process.
  execution.promise.catch(() => {});
  trx.executionPromise = execution.promise;
  return {
    trx: trx as unknown as KnexTx<K>,
    refusal,
    end(error) {
      ended = true;
      if (error === null) execution.resolve();
      else execution.reject(error);
    },
  };
}

function clientFacadeFor(client: QueryClient) {
  let started = false;
  const query = (...args: unknown[]): unknown => {
    if (started || !isBegin(args[0])) return queryWithCallback(client, args);
    started = true;
    return callBack(emptyResult, args.at(-1));
  };
  return {
    // A derived object, because Knex sets marks of its own on a connection.
    client: Object.create(client, { query: { value: query } }) as object,
    started: () => started,
  };
}

function isBegin(statement: unknown): boolean {
  return (
    typeof statement === "object" &&
    statement !== null &&
    "text" in statement &&
    /^begin(?: transaction)?;?$/iu.test(String(statement.text))
  );
}
