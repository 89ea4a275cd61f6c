/** Which neighbours are run with which front end. docs/adapters/neighbours.md is made from it; the compiler compares it with what is run. */

export const frontEnds = [
  "express",
  "express4",
  "fastify",
  "koa",
  "hono",
  "nest",
  "nestFastify",
  "fetch",
  "node",
] as const;

export type FrontEnd = (typeof frontEnds)[number];

export interface Row {
  /** What a reader of the documentation looks for. */
  readonly packages: readonly string[];
  readonly on: readonly FrontEnd[];
  /** What to heed, where there is something to heed. */
  readonly note?: string;
}

export const table = {
  helmet: {
    packages: ["helmet", "@fastify/helmet", "koa-helmet", "hono/secure-headers"],
    on: ["express", "express4", "fastify", "koa", "hono", "nest", "nestFastify", "node"],
  },
  cors: {
    packages: ["cors", "@fastify/cors", "@koa/cors", "hono/cors"],
    on: ["express", "express4", "fastify", "koa", "hono", "nest", "nestFastify", "node"],
  },
  compression: {
    packages: ["compression", "@fastify/compress", "koa-compress", "hono/compress"],
    on: ["express", "express4", "fastify", "koa", "hono", "nest", "nestFastify", "node"],
  },
  etag: {
    packages: ["Express's own ETag", "@fastify/etag", "koa-etag with koa-conditional-get", "hono/etag"],
    on: ["express", "express4", "fastify", "koa", "hono", "nest", "nestFastify"],
    note: "A streamed answer is held, and then may get the ETag that a stream does not get.",
  },
  responseTime: {
    packages: ["response-time", "hono/timing", "hono/request-id"],
    on: ["express", "express4", "hono", "nest", "node"],
  },
  sessions: {
    packages: ["express-session", "@fastify/session", "koa-session", "hono-sessions"],
    on: ["express", "express4", "fastify", "koa", "hono", "nest", "nestFastify", "node"],
    note: "A replay does not run the handler, so it does not set the session's cookie.",
  },
  secureSessions: { packages: ["@fastify/secure-session"], on: ["fastify"] },
  accounts: {
    packages: ["passport", "@fastify/passport", "koa-passport", "hono/bearer-auth"],
    on: ["express", "express4", "fastify", "koa", "hono", "nest", "nestFastify", "node"],
  },
  morgan: {
    packages: ["morgan", "hono/logger"],
    on: ["express", "express4", "hono", "nest", "node"],
  },
  pino: {
    packages: ["pino-http", "Fastify's logger", "koa-pino-logger"],
    on: ["express", "express4", "fastify", "koa", "nest", "nestFastify", "node"],
  },
  rateLimits: {
    packages: ["express-rate-limit", "@fastify/rate-limit", "hono-rate-limiter"],
    on: ["express", "express4", "fastify", "hono", "nest", "nestFastify"],
    note: "A replay counts as a request.",
  },
  flexibleLimits: { packages: ["rate-limiter-flexible"], on: ["express", "koa", "hono", "node"] },
  nestParts: { packages: ["Nest's guards, pipes, interceptors and filters"], on: ["nest", "nestFastify"] },
  graphqlYoga: {
    packages: ["graphql-yoga"],
    on: ["express", "express4", "fastify", "koa", "hono", "nest", "nestFastify", "fetch", "node"],
    note: "One request is one key, also where it carries several mutations.",
  },
  trpc: {
    packages: ["@trpc/server, with its fetch, fastify and node-http adapters"],
    on: ["express", "express4", "fastify", "koa", "hono", "nest", "nestFastify", "fetch", "node"],
    note: "A batch is one request with one key.",
  },
  routeHandlers: { packages: ["route handlers in Next's form"], on: ["fetch"] },
  callers: {
    packages: ["supertest", "Fastify's inject", "Hono's app.request"],
    on: ["express", "express4", "fastify", "koa", "hono", "nest", "nestFastify", "fetch", "node"],
  },
} as const satisfies Readonly<Record<string, Row>>;

/** What a file of its own runs, since it needs another frame than one app and its answers. */
export const runAside: readonly Row[] = [
  {
    packages: ["@opentelemetry/instrumentation-http, -express and -koa", "@fastify/otel", "@hono/otel"],
    on: ["express", "fastify", "koa", "hono", "nest", "nestFastify", "fetch", "node"],
  },
  { packages: ["a trusted proxy's X-Forwarded headers"], on: ["express", "express4", "fastify", "koa"] },
];

export type NeighbourName = keyof typeof table;
