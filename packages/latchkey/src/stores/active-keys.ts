/** How many keys a tenant has in use, for a limit on them. */

export interface ActiveKeys {
  readonly tenant: string;
  /** At most the limit that was asked for. */
  readonly count: number;
  /**
   * If the tenant has reached the limit: the milliseconds until the first of the counted records is forgotten. Before that,
   * no key becomes free by time alone. Null if the limit is not reached, or if none of the records ends by itself.
   */
  readonly roomAfterMs: number | null;
}
