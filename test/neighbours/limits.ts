/** Rate limits: a replay counts as a request, and has its own numbers. */
import { rateLimit } from "express-rate-limit";
import { RateLimiterMemory } from "rate-limiter-flexible";
import type { Traits } from "./table.ts";

export const limitOfExpress = () => [
  rateLimit({ limit: 100, standardHeaders: "draft-7", legacyHeaders: true }),
];

/** As its documentation shows it, for frameworks in connect's style. */
export function flexible() {
  const limiter = new RateLimiterMemory({ points: 100, duration: 60 });
  return async (
    _req: unknown,
    res: { setHeader(name: string, value: string): void },
    next: () => unknown,
  ): Promise<void> => {
    const { remainingPoints } = await limiter.consume("client");
    res.setHeader("X-RateLimit-Remaining", String(remainingPoints));
    next();
  };
}

const ofEachRequest = ["ratelimit", "ratelimit-remaining", "x-ratelimit-remaining"];
const random = ["x-ratelimit-reset", "ratelimit-reset"];

export const limits: Traits<"rateLimits" | "flexibleLimits"> = {
  rateLimits: { ofEachRequest, random },
  flexibleLimits: { ofEachRequest },
};
