import { nestProtect } from "../../../../packages/latchkey/src/http/nest/nest.ts";
import { breakReply, type SmallServices, single } from "../../../http/small-services.ts";
import { nestListener } from "../../../neighbours/nest-routes.ts";

/** Requests and responses, whose types are not looked at here. */
type Loose = ReturnType<JSON["parse"]>;

export const services: SmallServices = {
  notStarted: {
    "Nest on Fastify": ({ latchkey, lease }, run) => {
      const protect = nestProtect(latchkey, single)(lease());
      const breaking = {
        intercept(host: Loose, next: Loose) {
          const http = host.switchToHttp();
          // Latchkey looks at the reply before it reserves the key.
          breakReply(http.getRequest(), http.getResponse(), 1);
          return next.handle();
        },
      };
      return nestListener("Fastify", [{ path: "run", interceptors: [breaking, protect], handle: run }]);
    },
  },
  routed: ({ latchkey, lease }, options) => {
    const interceptors = [nestProtect(latchkey, single)(lease(options))];
    return nestListener("Express", [{ path: "items/*rest", interceptors, handle: () => "done" }]);
  },
};
