/** How much of the machine a sitting takes. */
import { availableParallelism } from "node:os";

/** How many may work at once: one processor is left to whoever else uses the machine. `taskset` makes it fewer. */
export function workersCount(): number {
  return Math.max(1, availableParallelism() - 1);
}
