import { arrivesOnce, onFetch } from "../../captured.ts";
import type { Framework } from "../../framework.ts";

export const hono: Framework = {
  name: "hono",
  docs: {
    title: "Hono",
    versions: "Hono 4, on Node and elsewhere",
    gives: "`honoProtect` and `honoServe` for Hono",
    body: "the request, or what Hono has cached of it",
  },
  variants: {
    hono: {
      title: "Hono",
      // What goes past Hono cannot be seen from there: the answer that is stored is the one that was returned.
      captured: { ...onFetch, aside: arrivesOnce, socket: arrivesOnce },
      neighbours: {
        helmet: "hono/secure-headers",
        cors: "hono/cors",
        compression: "hono/compress",
        etag: "hono/etag",
        responseTime: "hono/timing, hono/request-id",
        sessions: "hono-sessions",
        accounts: "hono/bearer-auth",
        morgan: "hono/logger",
        rateLimits: "hono-rate-limiter",
        flexibleLimits: "rate-limiter-flexible",
        graphqlYoga: "graphql-yoga",
        trpc: "@trpc/server",
        callers: "Hono's app.request",
        openTelemetry: "@hono/otel",
      },
    },
  },
  adapter: () => import("../../../../packages/latchkey/src/http/hono/hono.ts"),
  suite: () => import("./suite.ts"),
  fixture: () => import("./fixture.ts"),
  documented: () => import("./documented.ts"),
  services: () => import("./services.ts"),
  neighbours: () => import("./neighbours.ts"),
};
