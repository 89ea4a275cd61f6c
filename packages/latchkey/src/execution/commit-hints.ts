/** Hints that something is due: sent at once to listeners in this process, and through the store to other processes. */
import type { Hint, HintSupport } from "../stores/hints.ts";

export interface CommitHints {
  /** Announces committed work that a worker may do now. Never throws and never waits. */
  send(hint: Hint): void;
  /**
   * Calls `onHint`, synchronously, for hints of this process only, until the returned function is called. Hints of other
   * processes arrive through `store.hints`.
   */
  listen(onHint: (hint: Hint) => void): () => void;
}

export function createCommitHints(support: HintSupport | null): CommitHints {
  const listeners = new Set<(hint: Hint) => void>();
  return {
    send(hint) {
      for (const listener of listeners) ignoringErrors(() => listener(hint));
      ignoringErrors(() => support?.send(hint));
    },
    listen(onHint) {
      // A separate function for each call, so that the same one may be added twice.
      const listener = (hint: Hint) => onHint(hint);
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

/** A lost hint costs a poll interval; an error here would cost the caller its answer. */
function ignoringErrors(notify: () => void): void {
  try {
    notify();
  } catch {
    // Workers poll without it.
  }
}
