/** Lists come in pages; a page names the place where the next one begins. */
import { UsageError } from "./command.ts";
import { wholeNumber } from "./options.ts";

export const limitDefault = 50;

/** A place in a list: after this one. */
export interface Place {
  readonly createdAt: number;
  readonly id: string;
}

export interface PageValues {
  readonly limit?: string | undefined;
  readonly after?: string | undefined;
}

/** @throws {UsageError} */
export function pageOf({ limit = String(limitDefault), after }: PageValues): {
  readonly limit: number;
  readonly after: Place | null;
} {
  return {
    limit: wholeNumber("limit", limit, 1, 1_000),
    after: after === undefined ? null : placeOf(after),
  };
}

/** `<createdAt>_<id>`: milliseconds since the epoch, then the id. */
function placeOf(text: string): Place {
  const [, createdAt, id] = /^(\d{1,15})_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/u.exec(text) ?? [];
  if (createdAt === undefined || id === undefined) {
    throw new UsageError("--after takes the place that the page before ended with.");
  }
  return { createdAt: Number(createdAt), id };
}

/** Where the next page begins; null: this was the last. */
export function nextPlace(found: readonly Place[], limit: number): string | null {
  const last = found.length < limit ? undefined : found.at(-1);
  return last === undefined ? null : `${last.createdAt}_${last.id}`;
}
