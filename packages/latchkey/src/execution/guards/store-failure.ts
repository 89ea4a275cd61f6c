import { StoreError } from "../../errors.ts";
import { sqlStateOf } from "../../sql/sql-state.ts";

/** SQLSTATEs of a server that is going, coming, full or out of reach. */
const outages: readonly string[] = ["08", "53", "57P"];

/**
 * Whether an error says that the store cannot be used. A store that is there may refuse too, and what it refuses may be
 * about one key alone: one tenant's key must not lock out the others, and contention is no outage. Nor is a pool that is
 * all in use, which says nothing about the store at all.
 */
export function isStoreFailure(error: unknown): boolean {
  if (!(error instanceof StoreError) || error.overload) return false;
  if (error.certainty !== "rolled_back") return true;
  if (error.cause === undefined) return false;
  const state = sqlStateOf(error);
  return state === null || outages.some((prefix) => state.startsWith(prefix));
}
