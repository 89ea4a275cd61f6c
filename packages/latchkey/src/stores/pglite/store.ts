import type { RecordKey } from "../../engine/record.ts";
import type { Clock } from "../../ports.ts";
import type { Store } from "../store.ts";
import type { RunningKeys } from "./running-keys.ts";
import { sessionTransactions } from "./transactions.ts";

/** Adapts the Postgres store to the one session of PGlite: reads of a running key are answered from memory. */
export function besideSession<Tx>(
  store: Store<Tx>,
  { keys, schema, clock }: { readonly keys: RunningKeys; readonly schema: string; readonly clock: Clock },
): Store<Tx> {
  const { transactions: inner } = store;
  return {
    ...store,
    transactions:
      inner === null ? null : sessionTransactions({ inner, read: store.read, keys, schema, clock }),
    async read(key: RecordKey) {
      return (await keys.find(schema, key)?.reading()) ?? store.read(key);
    },
  };
}
