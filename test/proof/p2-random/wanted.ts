/** What there is to do for the background services. */
import type { ServiceName } from "./process.ts";
import type { World } from "./world.ts";

/** Those that may find something to do. */
export function wantedServices(world: World): readonly ServiceName[] {
  const states = new Set(world.records().map(({ state }) => state));
  const wanted: ServiceName[] = [];
  if (states.has("in_progress") || states.has("retryable")) wanted.push("rescuer");
  if (states.has("unknown")) wanted.push("reconciler");
  const open = [...world.effects.rows.values()].some(
    ({ effect }) => effect.state !== "delivered" && effect.state !== "dead",
  );
  if (open) wanted.push("dispatcher");
  if (states.has("pending")) wanted.push("worker");
  if (states.size > 0) wanted.push("cleaner");
  return wanted;
}
