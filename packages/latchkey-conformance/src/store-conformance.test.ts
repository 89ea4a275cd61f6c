import { describe, test } from "vitest";
import { memoryStore } from "../../latchkey/src/stores/memory.ts";
import { storeConformance } from "./index.ts";

/** An arbitrary day; the store's time moves only by `advance`. */
const startMs = Date.UTC(2026, 0, 1);

describe("the memory store keeps the store contract", () => {
  storeConformance({
    test,
    clock: "frozen",
    capabilities: memoryStore().capabilities,
    factory() {
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
    },
  });
});
