/** The operator: what no worker can find out about is looked up in the business's own rows, and settled. */
import pg from "pg";
import { createLatchkey, type SettleWith } from "../../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { Arena } from "./arena.ts";
import type { Row } from "./check.ts";
import type { ClientLog, KeyName } from "./history.ts";
import { answerOf } from "./work.ts";

export interface Operator {
  readonly settled: { settledCompleted: number; settledNotExecuted: number };
  /** Of an operation whose attempts have all ended. */
  settle(name: KeyName): Promise<void>;
  close(): Promise<void>;
}

export function openOperator(arena: Arena, log: ClientLog): Operator {
  const pool = new pg.Pool({ ...arena.postgres.connection, max: 2 });
  const latchkey = createLatchkey({ store: postgresStore({ pool, notify: false }) });
  const settled = { settledCompleted: 0, settledNotExecuted: 0 };
  let looks = 0;
  return {
    settled,
    async close() {
      if (!pool.ended) await pool.end();
    },
    async settle(name) {
      const { route, tenant, key } = name;
      // A doubt that comes up again wants a reason of its own.
      const by = { operator: "soak", reason: `looked at the business's own rows, ${++looks}` };
      const [row] = await arena.query<Row>(
        "select body, execution from business where route = $1 and tenant = $2 and key = $3",
        [route, tenant, key],
      );
      const answer =
        row === undefined ? null : answerOf({ ...name, body: row.body }, { execution: row.execution });
      const to = answer === null ? "retryable" : { answer: textOfAnswer(answer) };
      const ended = log.begin(name, "operator", { kind: "settle", to }, "the database", null);
      const settlement: SettleWith = answer === null ? { notExecuted: by } : { completed: answer };
      const { record } = await latchkey.runtime.store.read({ tenant, scope: route, key });
      const target = { tenant, operation: route, key, recordId: record?.id ?? "" };
      const { kind } = await latchkey.settle(target, settlement, by);
      const done = kind === "settled";
      if (done) settled[answer === null ? "settledNotExecuted" : "settledCompleted"]++;
      ended({ answered: { kind: done ? "done" : "refused" }, status: 0, execution: null, body: null });
    },
  };
}

/** As a client reads a replay of it. */
function textOfAnswer({ status, headers, body }: ReturnType<typeof answerOf>): string {
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    (typeof value === "string" ? [value] : value).map((line) => [name, line] as const),
  );
  return JSON.stringify([status, [...lines, ["content-type", "application/json"]], JSON.stringify(body)]);
}
