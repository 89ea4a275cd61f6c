import { nodeProtect, nodeServe, nodeStatus } from "../../../../packages/latchkey/src/http/node.ts";
import {
  amountIn,
  breakResponse,
  type SmallServices,
  single,
  statusOptions,
} from "../../../http/small-services.ts";

export const services: SmallServices = {
  served({ latchkey, operation }) {
    const serve = nodeServe(latchkey, single);
    const handle = serve(operation, (_req, { body }) => ({ amount: amountIn(JSON.parse(String(body))) }));
    let requests = 0;
    return (req, res) => {
      res.setHeader("X-Request", String(++requests));
      handle(req, res).catch((error) => res.writeHead(error.status ?? 500).end());
    };
  },
  status({ latchkey, operation }) {
    let requests = 0;
    const run = nodeServe(latchkey, statusOptions)(operation, () => null as never);
    const status = nodeStatus(latchkey, statusOptions);
    return (req, res) => {
      res.setHeader("X-Request", String(++requests));
      res.setHeader("Cache-Control", "public");
      (req.url === "/v1/run" ? run : status)(req, res).catch(() => res.writeHead(500).end());
    };
  },
  notStarted: {
    "node:http": ({ latchkey, lease }, run) => {
      const handle = nodeProtect(latchkey, single)(lease(), (_req, res) => {
        run();
        res.writeHead(201).end();
      });
      return (req, res) => {
        breakResponse(req, res);
        handle(req, res).catch(() => {
          Reflect.deleteProperty(res, "getRawHeaderNames");
          res.writeHead(500).end();
        });
      };
    },
  },
  routed: ({ latchkey, lease }, options) =>
    nodeProtect(latchkey, single)(lease(options), (_req, res) => void res.end("done")),
};
