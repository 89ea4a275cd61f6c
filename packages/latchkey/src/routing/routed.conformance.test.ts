/** The store contract over several memory stores; `routed.database.test.ts` has two databases. */
import { describe, test } from "vitest";
import { storeConformance } from "../../../latchkey-conformance/src/index.ts";
import { type MemoryStore, memoryStore } from "../stores/memory.ts";
import { routedStore } from "./routed.ts";

/** An arbitrary day; the stores' time moves only by `advance`. */
const startMs = Date.UTC(2026, 0, 1);

/** Spreads the suite's tenants; most cases use only one. */
function placeOf(tenant: string, count: number): number {
  return [...tenant].reduce((sum, letter) => sum + (letter.codePointAt(0) ?? 0), 0) % count;
}

describe.each([1, 3])("over %i memory stores", (count) => {
  storeConformance({
    test,
    clock: "frozen",
    capabilities: memoryStore().capabilities,
    factory() {
      let now = startMs;
      const stores = Array.from({ length: count }, () => memoryStore({ now: () => now }));
      const make = () =>
        routedStore({
          route: (tenant) => stores[placeOf(tenant, count)] as MemoryStore,
          stores: () => stores,
        });
      return {
        store: make(),
        secondStore: make(),
        advance(milliseconds) {
          now += milliseconds;
        },
        business: {
          write: (tx, row) => tx.insert("orders", { row }),
          committedRows: async () =>
            stores.flatMap((store) => store.rows("orders")).map(({ row }) => String(row)),
        },
        close() {},
      };
    },
  });
});
