/**
 * Hints that something is due, between the processes that use one store. Losing one costs a poll interval and nothing
 * else; nothing depends on them. They never ride in anybody's transaction.
 */
export type Hint = "effects" | "pending";

export interface HintSupport {
  /** Says it soon, together with others. Never throws and never waits. */
  send(hint: Hint): void;
  /**
   * Calls `hear` for hints of every process, this one included, until the returned function is called. It comes back by
   * itself after its connection was lost.
   *
   * @throws {StoreError} when it cannot begin; polling goes on without it.
   */
  listen(hear: (hint: Hint) => void): Promise<() => Promise<void>>;
}
