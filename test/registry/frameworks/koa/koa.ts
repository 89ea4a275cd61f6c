import { arrivesTwice, onNode } from "../../captured.ts";
import type { Framework } from "../../framework.ts";

export const koa: Framework = {
  name: "koa",
  docs: {
    title: "Koa",
    versions: "Koa 3",
    gives: "`koaProtect` and `koaServe` for Koa 3",
    body: "`ctx.request.rawBody` of the parser; without a parser, the adapter reads them",
  },
  variants: {
    koa: {
      title: "Koa",
      captured: { ...onNode, nothing: ["404", "the same"], aside: arrivesTwice },
      neighbours: {
        helmet: "koa-helmet",
        cors: "@koa/cors",
        compression: "koa-compress",
        etag: "koa-etag with koa-conditional-get",
        sessions: "koa-session",
        accounts: "koa-passport",
        pino: "koa-pino-logger",
        flexibleLimits: "rate-limiter-flexible",
        graphqlYoga: "graphql-yoga",
        trpc: "@trpc/server",
        callers: "supertest",
        openTelemetry: "@opentelemetry/instrumentation-koa",
        trustedProxy: "a trusted proxy's X-Forwarded headers",
      },
    },
  },
  adapter: () => import("../../../../packages/latchkey/src/http/koa/koa.ts"),
  suite: () => import("./suite.ts"),
  fixture: () => import("./fixture.ts"),
  documented: () => import("./documented.ts"),
  services: () => import("./services.ts"),
  neighbours: () => import("./neighbours.ts"),
};
