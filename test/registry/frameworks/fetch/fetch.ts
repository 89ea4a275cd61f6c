import { onFetch } from "../../captured.ts";
import type { Framework } from "../../framework.ts";

export const fetch: Framework = {
  name: "fetch",
  docs: {
    title: "Fetch",
    versions: "handlers from `Request` to `Response`: Next.js, Bun, Deno, Workers",
    gives: "`fetchProtect` and `fetchServe` for handlers that take a `Request` and return a `Response`",
    body: "the request",
  },
  variants: {
    fetch: {
      title: "Fetch",
      captured: onFetch,
      neighbours: {
        graphqlYoga: "graphql-yoga",
        trpc: "@trpc/server",
        routeHandlers: "route handlers in Next's form",
        callers: "a call of the handler",
        openTelemetry: "@opentelemetry/instrumentation-http",
      },
    },
  },
  adapter: () => import("../../../../packages/latchkey/src/http/fetch/fetch.ts"),
  suite: () => import("./suite.ts"),
  fixture: () => import("./fixture.ts"),
  documented: () => import("./documented.ts"),
  services: () => import("./services.ts"),
  neighbours: () => import("./neighbours.ts"),
};
