/** Archives records before they are forgotten. */
import { LatchkeyError } from "../errors.ts";
import type { Archival, Archive } from "../stores/archival.ts";

/** Smaller than the record cleaner's batch, because an answer may have a megabyte. */
const batchMax = 100;

/**
 * Archives and forgets up to `limit` records, in batches. Returns how many were forgotten.
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
    // This round's time is over, so another round may already process these records.
    if (signal.aborted) break;
    const gone = await archival.forget(records);
    forgotten += gone;
    if (gone < wanted) break;
  }
  return forgotten;
}

export class ArchiveFailed extends LatchkeyError {
  override readonly name = "ArchiveFailed";
  /** How many records were forgotten before the failure. */
  readonly forgotten: number;

  constructor(forgotten: number, options: { readonly cause: unknown }) {
    super("archive-failed", options);
    this.forgotten = forgotten;
  }
}
