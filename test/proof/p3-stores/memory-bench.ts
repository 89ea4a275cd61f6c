import {
  type BusinessRow,
  type MemoryTransaction,
  memoryStore,
} from "../../../packages/latchkey/src/stores/memory.ts";
import type { StoreKind } from "./bench.ts";

const table = "business";

export const memory: StoreKind = {
  name: "memory",
  open: async () => ({
    name: "memory",
    version: process.versions.node,
    close: async () => {},
    async begin(clock) {
      let nowMs = clock.wallMs();
      const store = memoryStore({ ports: { clock }, now: () => nowMs });
      return {
        name: "memory",
        store,
        async setTime(ms) {
          nowMs = ms;
        },
        write: (tx, row) => (tx as MemoryTransaction).insert(table, { row }),
        rows: async () => store.rows(table).map(rowOf),
        end: async () => {},
      };
    },
  }),
};

function rowOf({ row }: BusinessRow): string {
  return String(row);
}
