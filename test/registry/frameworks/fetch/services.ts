import { getRequestListener } from "@hono/node-server";
import { fetchProtect } from "../../../../packages/latchkey/src/http/fetch/fetch.ts";
import { breakRequest, type SmallServices, single } from "../../../http/small-services.ts";

export const services: SmallServices = {
  notStarted: {
    Fetch: ({ latchkey, lease }, run) => {
      const handler = fetchProtect(latchkey, single)(lease(), () => {
        run();
        return new Response(null, { status: 201 });
      });
      return getRequestListener((request) =>
        handler(breakRequest(request)).catch(() => new Response(null, { status: 500 })),
      );
    },
  },
  routed: ({ latchkey, lease }, options) =>
    getRequestListener(fetchProtect(latchkey, single)(lease(options), () => new Response("done"))),
};
