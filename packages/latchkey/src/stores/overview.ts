/** How much waits in a store, and since when: for gauges and for the first page of a console. */

export interface Depth {
  /** At most the limit that was asked for. */
  readonly count: number;
  /** Whether there are more than were counted. */
  readonly more: boolean;
  /** Milliseconds since the Unix epoch, on the store's clock, of the oldest that was counted; null if there are none. */
  readonly oldestAt: number | null;
}

export interface Overview {
  /** The store's time, from which ages are measured. */
  readonly now: number;
  readonly records: {
    /** Accepted for a worker and not begun; oldest by creation. */
    readonly pending: Depth;
    /** Under a lease; oldest by creation. */
    readonly inProgress: Depth;
    /** Failed without effect, to be continued; oldest by creation. */
    readonly retryable: Depth;
    /** Their outcome is not known; oldest by creation. */
    readonly unknown: Depth;
  };
  /** Attempts that only the lease rescuer can still end; oldest by the time when that was due. Absent if they are not counted. */
  readonly overdueLeases: Depth;
  /** Null: the store has no outbox. */
  readonly effects: {
    /** Not delivered, and not at work; oldest by creation. */
    readonly pending: Depth;
    /** Being delivered; oldest by creation. */
    readonly claimed: Depth;
    /** Given up, and waiting for a person; oldest by creation. */
    readonly dead: Depth;
  } | null;
  /** Null: the store keeps no dead messages. */
  readonly messages: {
    /** Oldest by when it was given up. */
    readonly dead: Depth;
  } | null;
}
