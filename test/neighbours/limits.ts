/** Rate limits: a replay counts as a request, and has its own numbers. */
import fastifyRateLimit from "@fastify/rate-limit";
import { rateLimit } from "express-rate-limit";
import { rateLimiter } from "hono-rate-limiter";
import { RateLimiterMemory } from "rate-limiter-flexible";
import type { Neighbours } from "./frame.ts";
import { expressBefore } from "./front-ends/express.ts";
import { fastifyBefore } from "./front-ends/fastify.ts";
import { koaBefore } from "./front-ends/koa.ts";
import { nestBefore, nestFastifyBefore } from "./front-ends/nest.ts";
import { nodeBefore } from "./front-ends/node.ts";

const limitOfExpress = () => [rateLimit({ limit: 100, standardHeaders: "draft-7", legacyHeaders: true })];

/** As its documentation shows it, for frameworks in connect's style. */
function flexible() {
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

export const limits: Neighbours<"rateLimits" | "flexibleLimits"> = {
  rateLimits: {
    ofEachRequest,
    random,
    on: {
      express: expressBefore(limitOfExpress),
      express4: expressBefore(limitOfExpress),
      fastify: fastifyBefore((app) => app.register(fastifyRateLimit, { max: 100, timeWindow: 60_000 })),
      hono: ({ app, protect, handler }) => {
        app.use(rateLimiter({ windowMs: 60_000, limit: 100, keyGenerator: () => "client" }) as never);
        app.post("/run", protect(handler));
      },
      nest: nestBefore(limitOfExpress),
      nestFastify: nestFastifyBefore((app) => app.register(fastifyRateLimit, { max: 100 })),
    },
  },
  flexibleLimits: {
    ofEachRequest,
    on: {
      express: expressBefore(() => [flexible()]),
      koa: koaBefore(() => {
        const limiter = new RateLimiterMemory({ points: 100, duration: 60 });
        return [
          async (ctx, next) => {
            const { remainingPoints } = await limiter.consume("client");
            ctx.set("X-RateLimit-Remaining", String(remainingPoints));
            await next();
          },
        ];
      }),
      hono: ({ app, protect, handler }) => {
        const limiter = new RateLimiterMemory({ points: 100, duration: 60 });
        app.use(async (c, next) => {
          const { remainingPoints } = await limiter.consume("client");
          c.header("X-RateLimit-Remaining", String(remainingPoints));
          await next();
        });
        app.post("/run", protect(handler));
      },
      node: nodeBefore(() => [flexible()]),
    },
  },
};
