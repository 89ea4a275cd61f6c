/** Hints that something is due: to those who listen in this process at once, and to other processes by way of the store. */
import type { Hint, HintSupport } from "../stores/hints.ts";

export interface CommitHints {
  /** Says that something has been committed that a worker may do now. Never throws and never waits. */
  send(hint: Hint): void;
  /**
   * Calls `hear`, synchronously, for hints of this process alone, until the returned function is called. Those of other
   * processes come by `store.hints`.
   */
  listen(hear: (hint: Hint) => void): () => void;
}

export function createCommitHints(support: HintSupport | null): CommitHints {
  const listeners = new Set<(hint: Hint) => void>();
  return {
    send(hint) {
      for (const hear of listeners) heard(() => hear(hint));
      heard(() => support?.send(hint));
    },
    listen(hear) {
      // One of its own for each call, so that the same function may listen twice.
      const listener = (hint: Hint) => hear(hint);
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

/** A hint that is lost costs a poll interval; an error here would cost the caller its answer. */
function heard(tell: () => void): void {
  try {
    tell();
  } catch {
    // Polling goes on without it.
  }
}
