/** One transaction through TypeORM, with the notifications of the DataSource's subscribers. */
import type { QueryClient } from "../pg-clients/callback-queries.ts";
import { warnOfSubscriber } from "../subscriber-warning.ts";
import type { BridgeOutcome, BridgeSession, BridgeWork } from "../transaction.ts";
import type { TypeormDataSource } from "./data-source.ts";
import { type OpenedRunner, openRunner, type TransactionEvent } from "./query-runner.ts";

type Work<Tx, T> = (session: BridgeSession<Tx>) => Promise<BridgeWork<T>>;

/** The open query runner, and whether the handler sent a statement: subscribers are notified only then. */
interface Through<M> {
  readonly runner: OpenedRunner<M>;
  used(): boolean;
}

/** @param transact opens a transaction and runs its work on the guarded client */
export async function throughTypeorm<D extends TypeormDataSource, T>(
  dataSource: D,
  transact: (inside: Work<QueryClient, T>) => Promise<BridgeOutcome<T>>,
  work: Work<D["manager"], T>,
): Promise<BridgeOutcome<T>> {
  const opened: { through?: Through<D["manager"]> } = {};
  const inside: Work<QueryClient, T> = async ({ tx, ...session }) => {
    const runner = await openRunner(dataSource, tx);
    const through = { runner, used: session.used };
    opened.through = through;
    const result = await work({ ...session, tx: runner.manager });
    if (result.end === "commit") await beforeCommit(through);
    return result;
  };
  let outcome: BridgeOutcome<T>;
  try {
    outcome = await transact(inside);
  } catch (error) {
    await notifyAfter(opened.through, "AfterTransactionRollback");
    throw error;
  }
  if (outcome.kind === "committed") await notifyAfter(opened.through, "AfterTransactionCommit");
  else if (outcome.kind !== "in_doubt") await notifyAfter(opened.through, "AfterTransactionRollback");
  return outcome;
}

/** @throws {LatchkeyError} `transaction-control` when the handler has tried to roll back and goes on as if that had succeeded */
async function beforeCommit({ runner, used }: Through<unknown>): Promise<void> {
  const refusal = runner.refusal();
  if (refusal !== null) throw refusal;
  if (used()) await runner.notify("BeforeTransactionCommit");
}

/** The transaction's outcome is decided by now, so an error of a subscriber is only a warning. */
async function notifyAfter(through: Through<unknown> | undefined, event: TransactionEvent): Promise<void> {
  if (through === undefined || !through.used()) return;
  try {
    await through.runner.notify(event);
  } catch (error) {
    warnOfSubscriber("TypeORM", event, error);
  }
}
