import { arrivesOnce, arrivesTwice, onNode } from "../../captured.ts";
import type { Framework } from "../../framework.ts";

export const fastify: Framework = {
  name: "fastify",
  docs: {
    title: "Fastify",
    versions: "Fastify 5",
    gives: "`fastifyProtect` and `fastifyServe` for Fastify 5",
    body: "kept as they pass to the content type parser",
  },
  variants: {
    fastify: {
      title: "Fastify",
      captured: {
        ...onNode,
        trailers: arrivesOnce,
        twice: ["the first one", "the same"],
        nothing: ["200", "the same"],
        aside: arrivesTwice,
      },
      neighbours: {
        helmet: "@fastify/helmet",
        cors: "@fastify/cors",
        compression: "@fastify/compress",
        etag: "@fastify/etag",
        sessions: "@fastify/session",
        secureSessions: "@fastify/secure-session",
        accounts: "@fastify/passport",
        pino: "Fastify's logger",
        rateLimits: "@fastify/rate-limit",
        graphqlYoga: "graphql-yoga",
        trpc: "@trpc/server",
        callers: "Fastify's inject",
        openTelemetry: "@fastify/otel",
        trustedProxy: "a trusted proxy's X-Forwarded headers",
      },
    },
  },
  adapter: () => import("../../../../packages/latchkey/src/http/fastify/fastify.ts"),
  givenApp: ["fastifyProtect", "fastifyServe"],
  suite: () => import("./suite.ts"),
  fixture: () => import("./fixture.ts"),
  documented: () => import("./documented.ts"),
  services: () => import("./services.ts"),
  neighbours: () => import("./neighbours.ts"),
};
