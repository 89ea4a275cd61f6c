/** The stores that must not differ. The first is what the others are compared with. */
import type { StoreKind } from "./bench.ts";
import { memory } from "./memory-bench.ts";
import { pglite } from "./pglite-bench.ts";
import { postgres } from "./postgres-bench.ts";

export const stores: readonly StoreKind[] = [memory, pglite, postgres];
