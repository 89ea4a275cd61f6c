import { randomUUID } from "node:crypto";
import { createLatchkey } from "../../../packages/latchkey/src/latchkey.ts";
import type { PgPool } from "../../../packages/latchkey/src/sql/pg.ts";
import type { TransactionBridge } from "../../../packages/latchkey/src/sql/transaction.ts";
import { postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { OpenClient, Say } from "../client.ts";

/** A latchkey of its own, so that one client's keys are not another's. */
export function through<Tx>(
  pool: PgPool,
  transactions: TransactionBridge<Tx>,
  say: (tx: Tx) => Say,
): OpenClient["handle"] {
  const latchkey = createLatchkey({ store: postgresStore({ pool, transactions }) });
  const tenant = randomUUID();
  const order = latchkey.operation("orders");
  return (key, work) => latchkey.run(order, { tenant, key, input: key }, ({ tx }) => work(say(tx)));
}
