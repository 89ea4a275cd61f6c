/** Limits per tenant, behind the interface of rate-limiter-flexible. */

/** The part of a rate limiter that Latchkey needs; every limiter of rate-limiter-flexible has it. */
export interface RateLimiter {
  /** Rejects with `{ msBeforeNext }` when the limit is reached; with an `Error` when the limiter itself fails. */
  consume(key: string, points: number): Promise<unknown>;
}

export interface Limits {
  /** Limits a tenant's requests that bring a new key. */
  readonly newKeys?: RateLimiter;
  /** Limits a tenant's requests that reach the store. */
  readonly lookups?: RateLimiter;
  /** How many keys a tenant may have in the store at once, 1 to 1,000,000. */
  readonly activeKeys?: number;
}

export type LimitName = keyof Limits;

/** The limits on the rate of requests. */
export type RateLimitName = Exclude<LimitName, "activeKeys">;

/** For a limiter that does not return a time: one second. */
const retryAfterDefaultMs = 1_000;

/**
 * Consumes one of the tenant's points. Returns null if the request may continue, otherwise how long to wait. If the limiter
 * itself fails, the request continues: the protection against duplicates does not depend on it.
 */
export async function overLimit(
  limiter: RateLimiter,
  tenant: string,
  onError: (error: unknown) => void,
): Promise<number | null> {
  try {
    await limiter.consume(tenant, 1);
    return null;
  } catch (rejection) {
    if (rejection instanceof Error || typeof rejection !== "object" || rejection === null) {
      onError(rejection);
      return null;
    }
    const waitMs: unknown = "msBeforeNext" in rejection ? rejection.msBeforeNext : undefined;
    return typeof waitMs === "number" && waitMs > 0 ? waitMs : retryAfterDefaultMs;
  }
}
