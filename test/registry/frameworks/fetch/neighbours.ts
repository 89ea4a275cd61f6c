import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import type { HttpCall } from "../../../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { answerOfFetch, messageOf } from "../../../neighbours/callers.ts";
import { routerOf, yogaOf } from "../../../neighbours/schemas.ts";
import { type Starts, startsOf } from "../../../neighbours/starts.ts";
import { type FetchMount, startFetch } from "./frame.ts";

export const neighbours: Readonly<Record<string, Starts>> = {
  fetch: startsOf<FetchMount>(startFetch, {
    graphqlYoga({ world, protect }) {
      const yoga = yogaOf(world);
      return protect((request) => yoga.fetch(request));
    },
    trpc({ world, protect }) {
      const router = routerOf(world);
      return protect((req) => fetchRequestHandler({ endpoint: "/", req, router }));
    },
    routeHandlers({ protect, handler }) {
      const route = { POST: protect(handler) };
      return (request) =>
        request.method === "POST" ? route.POST(request) : new Response(null, { status: 405 });
    },
    callers({ protect, handler }) {
      const handle = protect(handler);
      return {
        async call(call: HttpCall) {
          const request = new Request("http://service/run", { method: "POST", ...messageOf(call) });
          return answerOfFetch(await handle(request));
        },
        close: async () => {},
      };
    },
  }),
};
