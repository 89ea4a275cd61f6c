/** Limits per tenant, behind the interface of rate-limiter-flexible. */

import type { Clock } from "../ports.ts";
import {
  afterCall,
  type CircuitSettings,
  type CircuitState,
  closed,
  enter,
} from "../time/circuit-breaker.ts";
import { withLimit } from "../time/time-limit.ts";

/** The part of a rate limiter that Latchkey needs; every limiter of rate-limiter-flexible has it. */
export interface RateLimiter {
  /**
   * Rejects with `{ msBeforeNext }` when the limit is reached; with an `Error` when the limiter itself fails. Counts as failed
   * if it has not settled after a second, so a limiter that delays what it admits (`execEvenly`) does not limit anything, and
   * one that asks another when its server is away (`insuranceLimiter`) needs a client that rejects sooner.
   */
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

/** How long a request waits for a limiter. A client of Redis may queue its commands for as long as its server is away. */
const limiterLimitMs = 1_000;

/**
 * A limiter that did not answer several times in a row is not asked for a while, then by one request: without this each of the
 * 64 messages that share a transaction would wait for it inside that transaction, one after the other. Not after the first
 * time: one late answer, or one pause of this process, would lift the limit for all tenants.
 */
const circuit: CircuitSettings = { failureThreshold: 3, openMs: 1_000 };
const circuits = new WeakMap<RateLimiter, CircuitState>();

/**
 * Consumes one of the tenant's points. Returns null if the request may continue, otherwise how long to wait. If the limiter
 * itself fails or does not answer, the request continues: the protection against duplicates does not depend on it.
 */
export async function overLimit(
  clock: Clock,
  limiter: RateLimiter,
  tenant: string,
  onError: (error: unknown) => void,
): Promise<number | null> {
  const begunMs = clock.monotonicMs();
  const entered = enter(circuits.get(limiter) ?? closed, circuit, begunMs);
  circuits.set(limiter, entered.state);
  if (!entered.admitted) {
    onError(new Error("The limiter was not asked: it did not answer a moment ago"));
    return null;
  }
  const asked = await withLimit(clock, limiterLimitMs, () => limiter.consume(tenant, 1));
  const call = { ok: asked.kind !== "timed_out", begunMs };
  circuits.set(limiter, afterCall(circuits.get(limiter) ?? closed, circuit, call, clock.monotonicMs()));
  switch (asked.kind) {
    case "returned":
      return null;
    case "timed_out":
      onError(new Error(`The limiter did not answer within ${limiterLimitMs} ms`));
      return null;
    case "threw":
      return waitAfter(asked.error, onError);
    default:
      return asked satisfies never;
  }
}

function waitAfter(rejection: unknown, onError: (error: unknown) => void): number | null {
  if (rejection instanceof Error || typeof rejection !== "object" || rejection === null) {
    onError(rejection);
    return null;
  }
  const waitMs: unknown = "msBeforeNext" in rejection ? rejection.msBeforeNext : undefined;
  return typeof waitMs === "number" && waitMs > 0 ? waitMs : retryAfterDefaultMs;
}
