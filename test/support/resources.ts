/**
 * What a test file has started and must give back. `setup.ts` releases everything after the last test of each
 * file; a script outside Vitest calls `releaseAll` itself (if it dies first, the watchdog does the work).
 */
const held = new Map<object, () => Promise<void> | void>();

/** Registers a release; returns the function that takes it off the list again. */
export function onRelease(release: () => Promise<void> | void): () => void {
  const token = {};
  held.set(token, release);
  return () => {
    held.delete(token);
  };
}

/** Releases everything that is still held, newest first, and reports all failures together. */
export async function releaseAll(): Promise<void> {
  const releases = [...held.values()].reverse();
  held.clear();
  const failures: unknown[] = [];
  for (const release of releases) {
    try {
      await release();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, "some test resources could not be released");
}
