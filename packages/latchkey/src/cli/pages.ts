/** Options of lists, which are read in pages. */
import { type PageCursor, parseCursor } from "../operator/pages.ts";
import type { BulkValues } from "./bulk.ts";
import { UsageError } from "./command.ts";
import { wholeNumber } from "./options.ts";
import { shellWord } from "./text.ts";

export const limitDefault = 50;

export interface PageValues {
  readonly limit?: string | undefined;
  readonly after?: string | undefined;
}

/** @throws {UsageError} */
export function pageOf({ limit = String(limitDefault), after }: PageValues): {
  readonly limit: number;
  readonly after: PageCursor | null;
} {
  return {
    limit: wholeNumber("limit", limit, 1, 1_000),
    after: after === undefined ? null : cursorOf(after),
  };
}

function cursorOf(text: string): PageCursor {
  const cursor = parseCursor(text);
  if (cursor === null) throw new UsageError("--after takes the place that the previous page printed.");
  return cursor;
}

const filterOptions = ["operation", "effect", "tenant", "older-than", "error-code"] as const;

/** The filters of a list as words of a command line, for its next page. */
export function filterWords(
  values: BulkValues & { readonly config?: string | undefined; readonly console?: string | undefined },
): readonly string[] {
  return ([...filterOptions, "config", "console"] as const).flatMap((option) => {
    const value = values[option];
    return value === undefined ? [] : [`--${option} ${shellWord(value)}`];
  });
}
