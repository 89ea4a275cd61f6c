/** How many keys of a tenant are taken, for a limit on them. */

export interface ActiveKeys {
  readonly tenant: string;
  /** At most the limit that was asked for. */
  readonly count: number;
  /**
   * Of a tenant that has reached the limit: how many milliseconds until the first of the records that were counted is
   * forgotten. Until then time alone makes no room. Null: the limit is not reached, or none of them ends by itself.
   */
  readonly roomAfterMs: number | null;
}
