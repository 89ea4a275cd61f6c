import { onNode } from "../../captured.ts";
import type { Framework } from "../../framework.ts";

export const node: Framework = {
  name: "node",
  docs: {
    title: "node:http",
    versions: "`node:http` without a framework",
    gives: "`nodeProtect` and `nodeServe` for `node:http` without a framework",
    body: "the adapter reads them",
  },
  variants: {
    node: {
      title: "node:http",
      captured: onNode,
      neighbours: {
        helmet: "helmet",
        cors: "cors",
        compression: "compression",
        responseTime: "response-time",
        sessions: "express-session",
        accounts: "passport",
        morgan: "morgan",
        pino: "pino-http",
        flexibleLimits: "rate-limiter-flexible",
        graphqlYoga: "graphql-yoga",
        trpc: "@trpc/server",
        callers: "supertest",
        openTelemetry: "@opentelemetry/instrumentation-http",
      },
    },
  },
  adapter: () => import("../../../../packages/latchkey/src/http/node.ts"),
  suite: () => import("./suite.ts"),
  fixture: () => import("./fixture.ts"),
  documented: () => import("./documented.ts"),
  services: () => import("./services.ts"),
  neighbours: () => import("./neighbours.ts"),
};
