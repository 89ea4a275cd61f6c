/**
 * Everything that is kept of one tenant, page by page, so that it can be counted and deleted. A page is one atomic step of
 * bounded work; pages follow each other by `next`.
 *
 * - Of what is under way nothing is ever removed, whatever was asked for: the guard is checked in the step that removes.
 * - What waits for a person, or for its client, goes only where `undecided` says so, and each leaves an audit row: a record
 *   whose key may run again, an effect or message that is given up.
 */
import type { RecordKey } from "../engine/record.ts";

/** In the order in which they go: a record may go once its effects have. */
export const tenantParts = ["effects", "messages", "records", "early", "audit"] as const;

/**
 * `records` with their steps, leases and early settlements; `early`: what is left of lives that are over; `audit`: without
 * the rows that say that the tenant was deleted.
 */
export type TenantPart = (typeof tenantParts)[number];

export interface TenantSweep {
  readonly tenant: string;
  readonly part: TenantPart;
  /** `next` of the page before; null: from the start. */
  readonly after: string | null;
  /** The most rows that are looked at. */
  readonly limit: number;
  /** Null: they are only counted. */
  readonly remove: TenantRemoval | null;
}

export interface TenantRemoval {
  readonly undecided: boolean;
  /** Who has decided it, kept with each audit row. */
  readonly actor: string;
  readonly reason: string;
}

/** Each row of the page is counted once. */
export interface TenantPage {
  /** Finished, delivered, or old: nobody waits for it. */
  readonly over: number;
  /** It ends by itself, or a worker or another transaction has it right now. */
  readonly underWay: number;
  /** Unknown or retryable records, dead effects and messages. */
  readonly undecided: number;
  readonly removed: number;
  /** Keys of all records of the page, as they are kept. */
  readonly keys: readonly RecordKey[];
  /** Null: this was the last page. A page may count nothing and not be the last. */
  readonly next: string | null;
}

export interface TenantData {
  sweep(sweep: TenantSweep): Promise<TenantPage>;
  /** Writes that somebody has decided to delete the tenant. A repetition with the same id changes nothing. */
  note(tenant: string, note: TenantNote): Promise<void>;
}

/** Its audit row has an empty scope and key, and its own id in the record's place. */
export interface TenantNote {
  /** UUIDv7. */
  readonly id: string;
  readonly actor: string;
  readonly reason: string;
}

/** What audit rows of a deletion are called. */
export const tenantDeletion = "delete_tenant";

export interface Standing {
  readonly standing: "over" | "under_way" | "undecided";
  readonly removed: boolean;
}

/** Counts a page. What was to go and did not is being changed by somebody. */
export function standings(
  rows: readonly Standing[],
  remove: TenantRemoval | null,
): Pick<TenantPage, "over" | "underWay" | "undecided" | "removed"> {
  const counts = { over: 0, underWay: 0, undecided: 0, removed: 0 };
  for (const { standing, removed } of rows) {
    const wanted = remove !== null && (standing === "over" || (standing === "undecided" && remove.undecided));
    if (removed) counts.removed += 1;
    else if (standing === "under_way" || wanted) counts.underWay += 1;
    else if (standing === "over") counts.over += 1;
    else counts.undecided += 1;
  }
  return counts;
}
