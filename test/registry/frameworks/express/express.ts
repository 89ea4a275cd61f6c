import { onNode } from "../../captured.ts";
import type { Framework } from "../../framework.ts";

/** Packages that both versions are run with. */
const inBoth = {
  helmet: "helmet",
  cors: "cors",
  compression: "compression",
  etag: "Express's own ETag",
  responseTime: "response-time",
  sessions: "express-session",
  accounts: "passport",
  morgan: "morgan",
  pino: "pino-http",
  rateLimits: "express-rate-limit",
  graphqlYoga: "graphql-yoga",
  trpc: "@trpc/server",
  callers: "supertest",
  trustedProxy: "a trusted proxy's X-Forwarded headers",
} as const;

export const express: Framework = {
  name: "express",
  docs: {
    title: "Express",
    versions: "Express 5 and 4",
    gives: "`expressProtect`, `expressServe`, `expressRecord` and `keepRawBody` for Express 5 and 4",
    body: "the parsers' hook `keepRawBody`; without a parser, the adapter reads them",
  },
  variants: {
    express: {
      title: "Express 5",
      captured: onNode,
      neighbours: {
        ...inBoth,
        flexibleLimits: "rate-limiter-flexible",
        openTelemetry: "@opentelemetry/instrumentation-express",
      },
    },
    express4: {
      title: "Express 4",
      neighbours: inBoth,
    },
  },
  adapter: () => import("../../../../packages/latchkey/src/http/express/express.ts"),
  suite: () => import("./suite.ts"),
  fixture: () => import("./fixture.ts"),
  documented: () => import("./documented.ts"),
  services: () => import("./services.ts"),
  neighbours: () => import("./neighbours.ts"),
};
