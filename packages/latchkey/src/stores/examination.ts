/** What a store finds out about its server, role and settings, for `latchkey doctor`. */

export type FindingStatus =
  /** Nothing is wrong. */
  | "ok"
  /** It works, and costs safety or speed. */
  | "warning"
  /** Requests are refused, or a promise does not hold. */
  | "failed"
  /** The check could not be made; the message gives the reason. */
  | "not_checked";

export interface Finding {
  /** Stable name of what was checked, such as `read-only`. */
  readonly check: string;
  readonly status: FindingStatus;
  /** One or two sentences. */
  readonly message: string;
  /** What to do about it; null if nothing. */
  readonly remedy: string | null;
  /** Which of the stores, if the store consists of several. Absent: there is only one. */
  readonly place?: string;
}

/** An operation under a lease, whose lease is compared with how long its attempts take. */
export interface LeaseInUse {
  readonly operation: string;
  readonly leaseMs: number;
}

export interface ExamineRequest {
  /** Null if the operations are not known. */
  readonly leases: readonly LeaseInUse[] | null;
  /** Whether the store was made with the service's own options, so that they can be judged. */
  readonly isOfService: boolean;
}

export function ok(check: string, message: string): Finding {
  return { check, status: "ok", message, remedy: null };
}

export function notChecked(check: string, message: string): Finding {
  return { check, status: "not_checked", message, remedy: null };
}

export function warning(check: string, message: string, remedy: string): Finding {
  return { check, status: "warning", message, remedy };
}

export function failed(check: string, message: string, remedy: string): Finding {
  return { check, status: "failed", message, remedy };
}

/** Smaller differences do not matter, because a round trip is included. */
const clockDifferenceMaxMs = 2_000;

/**
 * @param now the store's time
 * @param askedAt this process's time when the store was asked
 * @param answeredAt this process's time when the store answered
 */
export function clockFinding(now: number, askedAt: number, answeredAt: number): Finding {
  const aheadMs = now < askedAt ? now - askedAt : Math.max(0, now - answeredAt);
  const seconds = (Math.abs(aheadMs) / 1_000).toFixed(1);
  if (Math.abs(aheadMs) <= clockDifferenceMaxMs) {
    return ok("clock", `The store's clock and this machine's differ by at most ${seconds} s.`);
  }
  const message = `The store's clock is ${seconds} s ${aheadMs > 0 ? "ahead of" : "behind"} this machine's. Leases and retention use the store's clock; the age of requests uses this machine's.`;
  return warning("clock", message, "Synchronise both machines with NTP.");
}
