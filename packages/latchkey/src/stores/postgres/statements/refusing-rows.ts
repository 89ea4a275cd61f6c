/** Keeps rows that refuse a write from blocking the others. */

import { StoreError } from "../../../errors.ts";
import type { Clock } from "../../../ports.ts";
import { sqlStateOf } from "../../../sql/sql-state.ts";

/**
 * Errors that a row itself can cause: data and constraints (22, 23), limits of size (54), a user's trigger or function
 * (38, 39, P0), a damaged row (XX). All others come from the state of the server, which would refuse every row.
 */
const causedByRow: readonly string[] = ["22", "23", "54", "38", "39", "P0", "XX"];

export function isCausedByRow(error: unknown): boolean {
  if (error instanceof TypeError) return true;
  if (!(error instanceof StoreError) || error.certainty !== "rolled_back") return false;
  return causedByRow.includes(sqlStateOf(error)?.slice(0, 2) ?? "");
}

/**
 * Runs `write` on all items. If a row may be the cause of an error, runs it on halves of them, and so on, until each row that
 * causes an error is written alone. Those rows are left out of the result.
 *
 * @throws whatever `write` throws for another reason, or when it was called with one item
 */
export async function eachAlone<Item, Row>(
  items: readonly Item[],
  write: (items: readonly Item[]) => Promise<readonly Row[]>,
): Promise<readonly Row[]> {
  try {
    return await write(items);
  } catch (error) {
    if (items.length < 2 || !isCausedByRow(error)) throw error;
  }
  const parts: (readonly Row[])[] = [];
  const middle = Math.ceil(items.length / 2);
  for (const half of [items.slice(0, middle), items.slice(middle)]) {
    try {
      parts.push(await eachAlone(half, write));
    } catch (error) {
      if (half.length !== 1 || !isCausedByRow(error)) throw error;
    }
  }
  return parts.flat();
}

const quarantineMs = 60_000;
/** The most rows in quarantine. Beyond that, the oldest one is retried early. */
const quarantineMax = 1_000;

/** Rows that refused a write. They are not written for a while, so that they do not block other rows. */
export class QuarantinedRows {
  readonly #clock: Clock;
  /** Until when each stays in quarantine, by the monotonic clock. */
  readonly #quarantined = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  quarantine(id: string): void {
    this.#quarantined.delete(id);
    this.#quarantined.set(id, this.#clock.monotonicMs() + quarantineMs);
    const [oldest] = this.#quarantined.keys();
    if (this.#quarantined.size > quarantineMax && oldest !== undefined) this.#quarantined.delete(oldest);
  }

  /** The ids of the rows in quarantine now, as a JSON list. */
  list(): string {
    const now = this.#clock.monotonicMs();
    for (const [id, until] of this.#quarantined) if (until <= now) this.#quarantined.delete(id);
    return JSON.stringify([...this.#quarantined.keys()]);
  }
}
