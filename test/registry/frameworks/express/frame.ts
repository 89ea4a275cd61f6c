import { Readable } from "node:stream";
import express, { type Express, type Request, type RequestHandler, type Response } from "express";
import express4 from "express4";
import { expressProtect, keepRawBody } from "../../../../packages/latchkey/src/http/express/express.ts";
import type { RouteOptions } from "../../../../packages/latchkey/src/http/protocol/http-options.ts";
import { type Mounting, type Served, withDefaults } from "../../../neighbours/served.ts";
import { operationOf, type World } from "../../../neighbours/world.ts";

export type ExpressHandler = (req: Request, res: Response) => unknown;

export interface ExpressParts {
  readonly app: Express;
  /** The framework itself, for further apps, routers and parsers. */
  readonly express: typeof express;
  readonly world: World;
  readonly handler: ExpressHandler;
  protect(handler: ExpressHandler, overrides?: RouteOptions<Request>): RequestHandler;
}

/** Puts a neighbour and the protected route `/run` into an app. */
export type ExpressMount = (parts: ExpressParts) => Mounting;

const frameworks = { express, express4 };

export async function startExpress(
  version: keyof typeof frameworks,
  mount: ExpressMount,
  world: World,
): Promise<Served> {
  const framework = frameworks[version];
  const app = framework();
  const { service } = world;
  const protectOne =
    service && expressProtect(service.latchkey, { tenant: (req: Request) => req.get("x-tenant") });
  const protect: ExpressParts["protect"] = (handler, overrides) =>
    service === null || protectOne === null
      ? (req, res, next) => {
          Promise.resolve(handler(req, res)).catch(next);
        }
      : protectOne(operationOf(world, service), handler, overrides);
  const handler: ExpressHandler = async (req, res) => answerOn(res, await world.run(req.body));
  const mounted = await mount({ app, express: framework, world, handler, protect });
  return withDefaults(mounted, () => app);
}

export function answerOn(res: Response, { status, headers, body }: Awaited<ReturnType<World["run"]>>): void {
  res.status(status).set(headers);
  if (body.kind === "json") res.json(body.value);
  else if (body.kind === "text") res.type("text/plain").send(body.text);
  else if (body.kind === "stream") Readable.from(body.chunks).pipe(res.type("text/plain"));
  else res.end();
}

/** A JSON parser and middleware on every route, then the protected one. */
export function expressBefore(middleware: (framework: typeof express) => readonly unknown[]): ExpressMount {
  return ({ app, express: framework, protect, handler }) => {
    app.use(framework.json({ verify: keepRawBody }), ...(middleware(framework) as RequestHandler[]));
    app.post("/run", protect(handler));
  };
}
