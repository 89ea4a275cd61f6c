/** Limits per tenant, behind the interface of rate-limiter-flexible. */

/** The part of a rate limiter that Latchkey needs; any limiter of rate-limiter-flexible has it. */
export interface RateLimiter {
  /** Rejects with `{ msBeforeNext }` when the limit is reached; with an `Error` when it cannot say. */
  consume(key: string, points: number): Promise<unknown>;
}

export interface Limits {
  /** Keys that are new for a tenant. */
  readonly newKeys?: RateLimiter;
  /** Requests of a tenant that ask the store. */
  readonly lookups?: RateLimiter;
  /** How many keys a tenant may have in the store at a time, 1 to 1,000,000. */
  readonly activeKeys?: number;
}

export type LimitName = keyof Limits;

/** Those that count how fast requests come. */
export type RateLimitName = Exclude<LimitName, "activeKeys">;

/** Of a limiter that does not say when: a second. */
const retryAfterDefaultMs = 1_000;

/**
 * Takes one point of the tenant's. Null: it may go on; else how long it should wait. A limiter that fails itself limits
 * nobody: the protection does not depend on it.
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
