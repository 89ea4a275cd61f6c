/**
 * Hints that something is due, sent between processes that use the same store. Nothing depends on them: a lost hint costs at
 * most one poll interval. They are never part of a user's transaction.
 */
export type Hint = "effects" | "pending";

export interface HintSupport {
  /** Sends the hint soon, together with others. Never throws and never waits. */
  send(hint: Hint): void;
  /**
   * Calls `onHint` for hints of every process, this one included, until the returned function is called. It reconnects by
   * itself when its connection is lost.
   *
   * @throws {StoreError} when it cannot start; polling goes on without it.
   */
  listen(onHint: (hint: Hint) => void): Promise<() => Promise<void>>;
}
