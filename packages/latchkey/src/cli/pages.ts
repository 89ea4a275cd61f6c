/** Options of lists, which come in pages. */
import { type Place, parsePlace } from "../operator/pages.ts";
import { UsageError } from "./command.ts";
import { wholeNumber } from "./options.ts";

export const limitDefault = 50;

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

function placeOf(text: string): Place {
  const place = parsePlace(text);
  if (place === null) throw new UsageError("--after takes the place that the page before ended with.");
  return place;
}
