/** Hints inside one process. */
import type { Hint, HintSupport } from "../hints.ts";

/** Listeners are called in a turn of their own, once for hints of the same kind that were sent before it. */
export function memoryHints(): HintSupport {
  const listeners = new Set<(hint: Hint) => void>();
  const due = new Set<Hint>();
  const notify = () => {
    const hints = [...due];
    due.clear();
    for (const hint of hints) for (const onHint of [...listeners]) onHint(hint);
  };
  return {
    send(hint) {
      if (due.size === 0) queueMicrotask(notify);
      due.add(hint);
    },
    async listen(onHint) {
      const listener = (hint: Hint) => onHint(hint);
      listeners.add(listener);
      return async () => {
        listeners.delete(listener);
      };
    },
  };
}
