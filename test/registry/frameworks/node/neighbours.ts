import type { IncomingMessage, ServerResponse } from "node:http";
import { nodeHTTPRequestHandler } from "@trpc/server/adapters/node-http";
import compression from "compression";
import cors from "cors";
import helmet from "helmet";
import responseTime from "response-time";
import { passportOfNode } from "../../../neighbours/accounts.ts";
import { bySupertest } from "../../../neighbours/callers.ts";
import { corsOptions } from "../../../neighbours/headers.ts";
import { flexible } from "../../../neighbours/limits.ts";
import { byMorgan, byPino } from "../../../neighbours/loggers.ts";
import { routerOf, yogaOf } from "../../../neighbours/schemas.ts";
import { serveListener } from "../../../neighbours/served.ts";
import { sessionOfExpress } from "../../../neighbours/sessions.ts";
import { type Starts, startsOf } from "../../../neighbours/starts.ts";
import { type NodeMount, nodeBefore, startNode } from "./frame.ts";

export const neighbours: Readonly<Record<string, Starts>> = {
  node: startsOf<NodeMount>(startNode, {
    helmet: nodeBefore(() => [helmet()]),
    cors: nodeBefore(() => [cors(corsOptions)]),
    compression: nodeBefore(() => [compression()]),
    responseTime: nodeBefore(() => [responseTime()]),
    sessions: nodeBefore(() => [sessionOfExpress()]),
    accounts: nodeBefore(passportOfNode),
    morgan({ world, protect, handler }) {
      const handle = protect(handler);
      const log = byMorgan(world);
      return (req, res) => log(req, res, () => void handle(req, res));
    },
    pino({ world, protect, handler }) {
      const handle = protect(handler);
      const log = byPino(world);
      return (req, res) => {
        log(req, res);
        void handle(req, res);
      };
    },
    flexibleLimits: nodeBefore(() => [flexible()]),
    graphqlYoga({ world, protect }) {
      const yoga = yogaOf(world);
      const handle = protect((req, res) => yoga(req, res));
      return serveListener((req, res) => void handle(req, res));
    },
    trpc({ world, protect }) {
      const router = routerOf(world);
      const handle = protect((req, res) => nodeHTTPRequestHandler({ router, req, res, path: "run" }));
      return serveListener((req, res) => void handle(req, res));
    },
    callers({ protect, handler }) {
      const handle = protect(handler);
      return bySupertest((req: IncomingMessage, res: ServerResponse) => void handle(req, res));
    },
  }),
};
