import { StoreError } from "../../errors.ts";
import { sqlStateOf } from "../../sql/sql-state.ts";

/** SQLSTATEs of a server that is stopping, starting, full or out of reach. */
const outages: readonly string[] = ["08", "53", "57P"];

/**
 * Whether an error means that the store cannot be used. A working store may also refuse a call, perhaps because of one key:
 * one tenant's key must not lock out the others, and contention is not an outage. A pool without a free connection says
 * nothing about the store.
 */
export function isStoreFailure(error: unknown): boolean {
  if (!(error instanceof StoreError) || error.overload) return false;
  if (error.certainty !== "rolled_back") return true;
  if (error.cause === undefined) return false;
  const state = sqlStateOf(error);
  return state === null || outages.some((prefix) => state.startsWith(prefix));
}
