import type { RegisteredStore } from "../../store.ts";

export const memory: RegisteredStore = {
  name: "memory",
  docs: { versions: "memory", gives: "the memory store, for tests and for trying things out" },
  transactions: true,
  keptIn: "process",
  protocols: [],
  options: {},
  adapter: () => import("../../../../packages/latchkey/src/stores/memory.ts"),
  fixture: () => import("./fixture.ts"),
};
