import { type MemoryTransaction, memoryStore } from "latchkey/memory";
import type { StoreUnderTest } from "../../packages/latchkey-conformance/src/store-conformance/case.ts";

/** An arbitrary day; the store's time moves only by `advance`. */
const startMs = Date.UTC(2026, 0, 1);

/** A memory store for one case. */
export function memorySubject(): StoreUnderTest<MemoryTransaction> {
  let now = startMs;
  const store = memoryStore({ now: () => now });
  return {
    store,
    advance(milliseconds) {
      now += milliseconds;
    },
    business: {
      write: (tx, row) => tx.insert("orders", { row }),
      committedRows: async () => store.rows("orders").map(({ row }) => String(row)),
    },
    close() {},
  };
}
