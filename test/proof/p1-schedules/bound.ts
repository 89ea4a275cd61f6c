/** How much may happen in one schedule. */

export interface Bound {
  /** How often a process may be left that could go on. */
  readonly switches: number;
  readonly crashes: number;
  /** How often time passes the end of a lease. */
  readonly leaseEnds: number;
  /** How many requests or replies are lost or late. */
  readonly lost: number;
}

/** Null: there is not so much left. */
export function spent(left: Bound, what: Partial<Bound>): Bound | null {
  const { switches = 0, crashes = 0, leaseEnds = 0, lost = 0 } = what;
  const next = {
    switches: left.switches - switches,
    crashes: left.crashes - crashes,
    leaseEnds: left.leaseEnds - leaseEnds,
    lost: left.lost - lost,
  };
  return Math.min(next.switches, next.crashes, next.leaseEnds, next.lost) < 0 ? null : next;
}

/** @param late requests and replies may be late, beside being lost */
export function boundText({ switches, crashes, leaseEnds, lost }: Bound, late: boolean): string {
  const how = late ? "lost or late" : "lost";
  return `at most ${switches} preemptions, ${crashes} crashes, ${leaseEnds} lease ends, ${lost} ${how}`;
}
