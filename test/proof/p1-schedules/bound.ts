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

/** What can go wrong on the way: requests and replies are lost or late, or they are lost, or replies alone are. */
export type Losses = "late" | "lost" | "replies";

const lossText = { late: "lost or late", lost: "lost", replies: "replies lost" } as const;

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

export function boundText({ switches, crashes, leaseEnds, lost }: Bound, losses: Losses): string {
  const how = lossText[losses];
  return `at most ${switches} preemptions, ${crashes} crashes, ${leaseEnds} lease ends, ${lost} ${how}`;
}
