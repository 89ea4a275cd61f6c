import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import { bearerAuth } from "hono/bearer-auth";
import { compress } from "hono/compress";
import { cors as honoCors } from "hono/cors";
import { etag as honoEtag } from "hono/etag";
import { logger as honoLogger } from "hono/logger";
import { requestId } from "hono/request-id";
import { secureHeaders } from "hono/secure-headers";
import { timing } from "hono/timing";
import { rateLimiter } from "hono-rate-limiter";
import { CookieStore, type Session, sessionMiddleware } from "hono-sessions";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { token } from "../../../neighbours/accounts.ts";
import { answerOfFetch, messageOf } from "../../../neighbours/callers.ts";
import { corsOptions } from "../../../neighbours/headers.ts";
import { routerOf, yogaOf } from "../../../neighbours/schemas.ts";
import { secret } from "../../../neighbours/sessions.ts";
import { type Starts, startsOf } from "../../../neighbours/starts.ts";
import { type HonoMount, honoBefore, startHono } from "./frame.ts";

export const neighbours: Readonly<Record<string, Starts>> = {
  hono: startsOf<HonoMount>(startHono, {
    helmet: honoBefore(secureHeaders()),
    cors: honoBefore(honoCors(corsOptions)),
    compression: honoBefore(compress()),
    etag: honoBefore(honoEtag()),
    responseTime: honoBefore(timing(), requestId()),
    sessions({ app, protect, handler }) {
      app.use(sessionMiddleware({ store: new CookieStore(), encryptionKey: secret }) as never);
      const counting = protect((c) => {
        const session: Session<{ orders: number }> = c.get("session");
        session.set("orders", (session.get("orders") ?? 0) + 1);
        return handler(c);
      });
      app.post("/run", counting);
    },
    accounts({ app, protect, handler }) {
      app.use(bearerAuth({ token }));
      app.post("/run", protect(handler));
    },
    morgan({ app, world, protect, handler }) {
      app.use(
        honoLogger((line) => {
          const status = /^--> .*?(\d{3})/u.exec(stripColours(line))?.[1];
          if (status !== undefined) world.logged.push(status);
        }),
      );
      app.post("/run", protect(handler));
    },
    rateLimits: ({ app, protect, handler }) => {
      app.use(rateLimiter({ windowMs: 60_000, limit: 100, keyGenerator: () => "client" }) as never);
      app.post("/run", protect(handler));
    },
    flexibleLimits: ({ app, protect, handler }) => {
      const limiter = new RateLimiterMemory({ points: 100, duration: 60 });
      app.use(async (c, next) => {
        const { remainingPoints } = await limiter.consume("client");
        c.header("X-RateLimit-Remaining", String(remainingPoints));
        await next();
      });
      app.post("/run", protect(handler));
    },
    graphqlYoga({ app, world, protect }) {
      const yoga = yogaOf(world);
      app.post(
        "/run",
        protect((c) => yoga.fetch(c.req.raw)),
      );
    },
    trpc({ app, world, protect }) {
      const router = routerOf(world);
      app.post(
        "/run",
        protect((c) => fetchRequestHandler({ endpoint: "/", req: c.req.raw, router })),
      );
    },
    callers({ app, protect, handler }) {
      app.post("/run", protect(handler));
      return {
        async call(call) {
          return answerOfFetch(await app.request("/run", { method: "POST", ...messageOf(call) }));
        },
      };
    },
  }),
};

function stripColours(line: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters.
  return line.replace(/\u001b\[\d+m/gu, "");
}
