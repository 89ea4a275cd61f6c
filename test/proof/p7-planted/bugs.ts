import type { Bug } from "./bug.ts";
import { batchBugs } from "./bugs-batches.ts";
import { callBugs } from "./bugs-calls.ts";
import { engineBugs } from "./bugs-engine.ts";
import { gatheredLeaseBugs } from "./bugs-gathered-leases.ts";
import { lookUpBugs } from "./bugs-look-ups.ts";
import { optimisticBugs } from "./bugs-optimistic.ts";
import { outboxBugs } from "./bugs-outbox.ts";
import { postgresBugs } from "./bugs-postgres.ts";
import { removalBugs } from "./bugs-removals.ts";

/** Every planted bug. Each must be caught. */
export const bugs: readonly Bug[] = [
  ...engineBugs,
  ...callBugs,
  ...outboxBugs,
  ...postgresBugs,
  ...optimisticBugs,
  ...batchBugs,
  ...lookUpBugs,
  ...gatheredLeaseBugs,
  ...removalBugs,
];
