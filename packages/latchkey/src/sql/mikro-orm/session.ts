/**
 * One transaction through MikroORM. Its EntityManager works on a Kysely transaction over the guarded client, so MikroORM
 * begins and ends nothing itself; the writes that it defers until COMMIT are flushed when the handler has answered.
 */
import { LatchkeyError } from "../../errors.ts";
import type { KyselyConnection } from "../kysely/connection.ts";
import { workThroughKysely } from "../kysely/session.ts";
import { type RefusedRollback, refusedEnd, refusedRollback } from "../refused-end.ts";
import { warnOfSubscriber } from "../subscriber-warning.ts";
import type { BridgeOutcome, BridgeSession, BridgeWork } from "../transaction.ts";
import { connectionOf, kyselyOf, type MikroOrm } from "./orm.ts";

type Work<Tx, T> = (session: BridgeSession<Tx>) => Promise<BridgeWork<T>>;
type Session = Omit<BridgeSession<unknown>, "tx">;
type Inside<T> = (connection: KyselyConnection, session: Session) => Promise<BridgeWork<T>>;

/** `EntityManager`, as far as Latchkey uses it. */
interface Manager {
  fork(options: { readonly clear: true }): Manager;
  transactional(work: (em: Manager) => Promise<never>, options: object): Promise<never>;
  setTransactionContext(transaction: object): void;
  getSessionContext?(): object | undefined;
  getUnitOfWork(useContext: false): object;
  getEventManager(): { dispatchEvent(event: TransactionEvent, about: object): unknown };
  flush(): Promise<void>;
  begin(): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** Names of MikroORM's events: subscribers have a method for each. */
type TransactionEvent =
  | "beforeTransactionStart"
  | "afterTransactionStart"
  | "beforeTransactionCommit"
  | "afterTransactionCommit"
  | "afterTransactionRollback";

interface Opened {
  readonly em: Manager;
  readonly rollback: RefusedRollback;
  /** Whether the handler has sent a statement. */
  used(): boolean;
  notify(event: TransactionEvent): Promise<void>;
}

/** @param transact opens a transaction and runs its work on a connection for Kysely */
export async function throughMikroOrm<O extends MikroOrm, T>(
  orm: O,
  transact: (inside: Inside<T>) => Promise<BridgeOutcome<T>>,
  work: Work<O["em"], T>,
): Promise<BridgeOutcome<T>> {
  let opened: Opened | null = null;
  const inside: Inside<T> = (connection, session) => {
    const counted = counting(connection);
    return workThroughKysely(
      { db: kyselyOf(orm), log: undefined, connection: counted.connection },
      session,
      ({ tx }) =>
        inFork(orm, async (em) => {
          opened = await open(orm, em, tx as object, counted);
          return workInside(opened, session, work);
        }),
    );
  };
  let outcome: BridgeOutcome<T>;
  try {
    outcome = await transact(inside);
  } catch (error) {
    await notifyAfter(opened, "afterTransactionRollback");
    throw error;
  }
  if (outcome.kind === "committed") await notifyAfter(opened, "afterTransactionCommit");
  else if (outcome.kind !== "in_doubt") await notifyAfter(opened, "afterTransactionRollback");
  return outcome;
}

/**
 * Runs `work` with a fork that stands for the ORM's own EntityManager in everything that `work` calls. MikroORM does that
 * for the callback of `transactional()`, after which it would flush once more; for that reason the callback never ends.
 */
function inFork<T>({ em }: MikroOrm, work: (fork: Manager) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const callback = (fork: Manager) => {
      work(fork).then(resolve, reject);
      return new Promise<never>(() => {});
    };
    (em as Manager)
      .fork({ clear: true })
      .transactional(callback, { propagation: "not_supported" })
      .catch(reject);
  });
}

async function open(
  orm: MikroOrm,
  em: Manager,
  transaction: object,
  statements: { reset(): void; used(): boolean },
): Promise<Opened> {
  const about = { em, uow: em.getUnitOfWork(false) };
  const notify = async (event: TransactionEvent) => {
    await em.getEventManager().dispatchEvent(event, { ...about, transaction });
  };
  await notify("beforeTransactionStart");
  em.setTransactionContext(transaction);
  await applySessionContext(orm, em, transaction);
  await notify("afterTransactionStart");
  statements.reset();
  return { em, rollback: refuseEnds(em), used: statements.used, notify };
}

/** MikroORM itself does this when it begins a transaction, or takes a connection out of its pool. */
async function applySessionContext(orm: MikroOrm, em: Manager, transaction: object): Promise<void> {
  const context = em.getSessionContext?.();
  if (context === undefined) return;
  const connection = connectionOf(orm);
  if (connection.applySessionContext === undefined) {
    throw new TypeError(
      "This version of MikroORM is not supported: it hides how it applies a session context",
    );
  }
  await connection.applySessionContext(transaction, context);
}

/** @returns the refused rollback */
function refuseEnds(em: Manager): RefusedRollback {
  const rollback = refusedRollback("rollback()");
  em.begin = async () => {
    throw new LatchkeyError("transaction-control", {
      message: "`begin()` was called on a handler's `tx`: use `tx.transactional()` for a savepoint",
    });
  };
  em.commit = async () => {
    throw refusedEnd("commit()");
  };
  em.rollback = rollback.call;
  return rollback;
}

async function workInside<Tx extends object, T>(
  opened: Opened,
  session: Session,
  work: Work<Tx, T>,
): Promise<BridgeWork<T>> {
  const { em, used, rollback, notify } = opened;
  const flush = async () => {
    await em.flush();
    if (used()) await notify("beforeTransactionCommit");
  };
  const result = await work({ ...session, used, flush, tx: em as unknown as Tx });
  const refusal = rollback.refusal();
  if (refusal !== null && result.end === "commit") throw refusal;
  return result;
}

/** The transaction's outcome is decided by now, so an error of a subscriber is only a warning. */
async function notifyAfter(opened: Opened | null, event: TransactionEvent): Promise<void> {
  if (opened === null || !opened.used()) return;
  try {
    await opened.notify(event);
  } catch (error) {
    warnOfSubscriber("MikroORM", event, error);
  }
}

/** Distinguishes the handler's statements from those that subscribers sent before it. */
function counting({ executeQuery, streamQuery }: KyselyConnection) {
  let used = false;
  const connection: KyselyConnection = {
    executeQuery(query) {
      used = true;
      return executeQuery(query);
    },
    streamQuery(query, chunkSize) {
      used = true;
      return streamQuery(query, chunkSize);
    },
  };
  const reset = () => {
    used = false;
  };
  return { connection, used: () => used, reset };
}
