import { nodeHTTPRequestHandler } from "@trpc/server/adapters/node-http";
import compression from "compression";
import cors from "cors";
import helmet from "helmet";
import { Passport } from "passport";
import responseTime from "response-time";
import { accountOf, strategy } from "../../../neighbours/accounts.ts";
import { bySupertest } from "../../../neighbours/callers.ts";
import { corsOptions } from "../../../neighbours/headers.ts";
import { flexible, limitOfExpress } from "../../../neighbours/limits.ts";
import { byMorgan, byPino } from "../../../neighbours/loggers.ts";
import { routerOf, yogaOf } from "../../../neighbours/schemas.ts";
import { count, sessionOfExpress } from "../../../neighbours/sessions.ts";
import { type Starts, startsOf } from "../../../neighbours/starts.ts";
import type { World } from "../../../neighbours/world.ts";
import { type ExpressMount, expressBefore, startExpress } from "./frame.ts";

const strongEtag: ExpressMount = (parts) => {
  parts.app.set("etag", "strong");
  return expressBefore(() => [])(parts);
};

const expressWith =
  (makeLogger: (world: World) => unknown): ExpressMount =>
  ({ app, express, world, protect, handler }) => {
    app.use(makeLogger(world) as never, express.json());
    app.post("/run", protect(handler, { fingerprint: "parsed" }));
  };

const withSession: ExpressMount = ({ app, express, protect, handler }) => {
  app.use(express.json(), sessionOfExpress());
  const counting = protect(
    (req, res) => {
      count(req);
      return handler(req, res);
    },
    { fingerprint: "parsed" },
  );
  app.post("/run", counting);
};

const signedIn: ExpressMount = ({ app, express, protect, handler }) => {
  const passport = new Passport();
  passport.use(strategy());
  app.use(express.json(), passport.initialize(), passport.authenticate("bearer", { session: false }));
  app.post("/run", protect(handler, { tenant: accountOf, fingerprint: "parsed" }));
};

const yogaOnExpress: ExpressMount = ({ app, express, world, protect }) => {
  const yoga = yogaOf(world);
  app.use(express.json());
  app.post(
    "/run",
    protect((req, res) => yoga(req, res), { fingerprint: "parsed" }),
  );
};

const trpc: ExpressMount = ({ app, express, world, protect }) => {
  const router = routerOf(world);
  app.use(express.json());
  const handle = protect((req, res) => nodeHTTPRequestHandler({ router, req, res, path: "run" }), {
    fingerprint: "parsed",
  });
  app.post("/run", handle);
};

/** Mounted alike in both versions. */
const inBoth = {
  helmet: expressBefore(() => [helmet()]),
  cors: expressBefore(() => [cors(corsOptions)]),
  compression: expressBefore(() => [compression()]),
  etag: strongEtag,
  responseTime: expressBefore(() => [responseTime()]),
  sessions: withSession,
  accounts: signedIn,
  morgan: expressWith(byMorgan),
  pino: expressWith(byPino),
  rateLimits: expressBefore(limitOfExpress),
  graphqlYoga: yogaOnExpress,
  trpc,
  callers({ app, express, protect, handler }) {
    app.use(express.json());
    app.post("/run", protect(handler, { fingerprint: "parsed" }));
    return bySupertest(app);
  },
} satisfies Readonly<Record<string, ExpressMount>>;

export const neighbours: Readonly<Record<string, Starts>> = {
  express: startsOf((mount: ExpressMount, world) => startExpress("express", mount, world), {
    ...inBoth,
    flexibleLimits: expressBefore(() => [flexible()]),
  }),
  express4: startsOf((mount: ExpressMount, world) => startExpress("express4", mount, world), inBoth),
};
