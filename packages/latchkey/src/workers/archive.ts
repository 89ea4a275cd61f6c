/** Records go somewhere else before they are forgotten. */
import { LatchkeyError } from "../errors.ts";
import type { Archival, Archive } from "../stores/archival.ts";

/** An answer may have a megabyte, so a batch is smaller than one of the record-cleaner. */
const batchMax = 100;

/**
 * At most `limit` records, in batches. How many were forgotten.
 *
 * @throws {LatchkeyError} `archive-failed`; earlier batches stay forgotten.
 */
export async function archiveAndForget(
  archival: Archival,
  archive: Archive,
  limit: number,
  signal: AbortSignal,
): Promise<number> {
  let forgotten = 0;
  while (forgotten < limit && !signal.aborted) {
    const wanted = Math.min(batchMax, limit - forgotten);
    const records = await archival.due(wanted);
    if (records.length === 0) break;
    try {
      await archive(records, { signal });
    } catch (cause) {
      throw new ArchiveFailed(forgotten, { cause });
    }
    // Its time is over, and another round may be at these records.
    if (signal.aborted) break;
    const gone = await archival.forget(records);
    forgotten += gone;
    if (gone < wanted) break;
  }
  return forgotten;
}

export class ArchiveFailed extends LatchkeyError {
  override readonly name = "ArchiveFailed";
  /** What went before it failed. */
  readonly forgotten: number;

  constructor(forgotten: number, options: { readonly cause: unknown }) {
    super("archive-failed", options);
    this.forgotten = forgotten;
  }
}
