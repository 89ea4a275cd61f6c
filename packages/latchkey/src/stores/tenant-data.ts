/**
 * All data of one tenant, page by page, so that it can be counted and deleted. A page is one atomic step of bounded work;
 * pages follow each other by `next`.
 *
 * - Nothing that is running is ever removed, whatever the request: the guard is checked in the step that removes.
 * - A record, effect or message that waits for a person, or for its client, is removed only with `undecided`, and each leaves an
 *   audit row, because the record's key may then run again, and the effect or message is given up.
 */
import type { RecordKey } from "../engine/record.ts";

/** In the order of removal: a record may be removed once its effects are. */
export const tenantParts = ["effects", "messages", "records", "early", "audit"] as const;

/**
 * `records` with their steps, leases and early settlements; `early`: settlements left over from ended lives; `audit`: without
 * the rows that record the deletion of the tenant.
 */
export type TenantPart = (typeof tenantParts)[number];

export interface TenantSweep {
  readonly tenant: string;
  readonly part: TenantPart;
  /** `next` of the previous page; null: from the start. */
  readonly after: string | null;
  /** The most rows that are read. */
  readonly limit: number;
  /** Null: the rows are only counted. */
  readonly remove: TenantRemoval | null;
}

export interface TenantRemoval {
  readonly undecided: boolean;
  /** Who has decided the removal; stored in each audit row. */
  readonly actor: string;
  readonly reason: string;
}

/** Each row of the page is counted once. */
export interface TenantPage {
  /** Finished, delivered, or old: neither a client nor an operator waits for it. */
  readonly over: number;
  /** It ends by itself, or a worker or another transaction is using it right now. */
  readonly underWay: number;
  /** Unknown or retryable records, dead effects and messages. */
  readonly undecided: number;
  readonly removed: number;
  /** Keys of all records of the page, as they are stored. */
  readonly keys: readonly RecordKey[];
  /** Null after the last page. A page that counts nothing need not be the last. */
  readonly next: string | null;
}

export interface TenantData {
  sweep(sweep: TenantSweep): Promise<TenantPage>;
  /** Writes an audit row for the decision to delete the tenant. A repetition with the same id changes nothing. */
  note(tenant: string, note: TenantNote): Promise<void>;
}

/** Its audit row has an empty scope and key, and its own id in the record's place. */
export interface TenantNote {
  /** UUIDv7. */
  readonly id: string;
  readonly actor: string;
  readonly reason: string;
}

/** The event of the audit rows of a deletion. */
export const tenantDeletion = "delete_tenant";

export interface SweptRow {
  readonly status: "over" | "under_way" | "undecided";
  readonly removed: boolean;
}

/** Counts a page. A row that should have been removed and was not is being changed by another transaction. */
export function countRows(
  rows: readonly SweptRow[],
  remove: TenantRemoval | null,
): Pick<TenantPage, "over" | "underWay" | "undecided" | "removed"> {
  const counts = { over: 0, underWay: 0, undecided: 0, removed: 0 };
  for (const { status, removed } of rows) {
    const wanted = remove !== null && (status === "over" || (status === "undecided" && remove.undecided));
    if (removed) counts.removed += 1;
    else if (status === "under_way" || wanted) counts.underWay += 1;
    else if (status === "over") counts.over += 1;
    else counts.undecided += 1;
  }
  return counts;
}
