/** Mistakes of a store for a client to make, so that the checks can be seen to find them. */
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import type {
  TransactionOutcome,
  TransactionSupport,
} from "../../../packages/latchkey/src/stores/transactions.ts";

/** Each with what is wrong about it. */
export const plants = {
  "answers-before-commit": "the answer is given before COMMIT's tag is seen",
  "ignores-warnings": "the warning that a wait for the standby was cancelled is not heeded",
  "reads-to-resolve": "a COMMIT in doubt is resolved by a plain SELECT",
} as const;

export type Plant = keyof typeof plants;

/** Anything with `pg`'s query. */
interface Queries {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}

export function planted<Tx>(store: Store<Tx>, pool: Queries, plant: Plant | null): Store<Tx> {
  const { transactions } = store;
  if (plant === null || transactions === null) return store;
  return { ...store, transactions: { ...transactions, ...mistake(pool, transactions, plant) } };
}

function mistake<Tx>(
  pool: Queries,
  transactions: TransactionSupport<Tx>,
  plant: Plant,
): Partial<TransactionSupport<Tx>> {
  switch (plant) {
    case "answers-before-commit":
      return {
        run: (request, work) =>
          new Promise((resolve, reject) => {
            const run = transactions.run(request, async (open) => {
              const end = await work(open);
              if (end.end === "commit") {
                const expiresAt = open.reading.now + end.retention.retentionMs;
                resolve({ kind: "committed", value: end.value, expiresAt });
              }
              return end;
            });
            run.then(resolve, reject);
          }),
      };
    case "ignores-warnings":
      return { run: async (request, work) => unwarned(await transactions.run(request, work)) };
    case "reads-to-resolve":
      return {
        async resolve(key, id) {
          const look = "select 1 from latchkey.records where key = $1 and id = $2 and state = 'completed'";
          const { rows } = await pool.query(look, [key.key, id]);
          return rows.length > 0 ? "committed" : "rolled_back";
        },
      };
    default:
      return plant satisfies never;
  }
}

function unwarned<T>(outcome: TransactionOutcome<T>): TransactionOutcome<T> {
  const warned = outcome.kind === "in_doubt" && String(outcome.error).includes("01000");
  return warned ? { kind: "committed", value: outcome.value, expiresAt: 0 } : outcome;
}
