/** Query objects that a handler sends: cursors, streams and COPYs hold the connection until they are read or closed. */
import { LatchkeyError } from "../../errors.ts";

/** What `pg` calls on a query object when it is over. */
interface QueryObject {
  handleReadyForQuery?: (...args: unknown[]) => unknown;
  handleError?: (...args: unknown[]) => unknown;
  on?: (event: "error", listener: () => void) => unknown;
}

const ends = ["handleReadyForQuery", "handleError"] as const;

/** Closing takes a round trip; what is still open after it will not be closed by the handler. */
const closingMs = 1_000;

export class OpenQueries {
  readonly #open = new Set<QueryObject>();

  /** Notes what a handler sends, if it is an object that `pg` lets write its own messages. */
  note(query: unknown): void {
    if (typeof query !== "object" || query === null || !("submit" in query)) return;
    const object = query as QueryObject;
    this.#open.add(object);
    for (const name of ends) {
      const end = object[name];
      if (typeof end !== "function") continue;
      object[name] = (...args) => {
        this.#open.delete(object);
        return Reflect.apply(end, object, args);
      };
    }
  }

  /** For the pipeline that follows the handler. */
  get blocked() {
    return { afterMs: closingMs, by: () => this.#error() };
  }

  /** The connection may be ended under them from now on, and an error without a listener would end the process. */
  abandon(): void {
    for (const object of this.#open) object.on?.("error", () => {});
  }

  #error(): LatchkeyError | null {
    const [object] = this.#open;
    if (object === undefined) return null;
    const message = `A ${object.constructor.name} that the handler sent through its \`tx\` is still open, so its transaction cannot end. Read it to its end, or close it, before you answer`;
    return new LatchkeyError("query-open", { message });
  }
}
