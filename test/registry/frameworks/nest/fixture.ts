/** Decorators are called as functions: a route is an entry of the table, and Node runs no files that have decorators. */
import "reflect-metadata";
import { Readable } from "node:stream";
import {
  type ArgumentsHost,
  Catch,
  Controller,
  createParamDecorator,
  type ExceptionFilter,
  type ExecutionContext,
  Module,
  NotFoundException,
  Req,
  RequestMapping,
  RequestMethod,
  Res,
  StreamableFile,
  type Type,
  UseGuards,
  UseInterceptors,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter, type NestExpressApplication } from "@nestjs/platform-express";
import type { Request, Response } from "express";
import { nestContext, nestProtect, nestServe, nestStatus } from "latchkey/nest";
import { bodyLimitBytes, type FrontEndFactory, type FrontEndParts } from "../../../fixture/http/front-end.ts";
import { sendReply } from "../../../fixture/http/node-reply.ts";
import { oneByOne } from "../../../fixture/http/web-reply.ts";
import {
  type Call,
  failure,
  notFound,
  type Reply,
  statusPath,
  tenantRequired,
} from "../../../fixture/route.ts";

/** On Express, Nest's default platform. */
export const frontEnd: FrontEndFactory = async (parts) => {
  const app = await NestFactory.create<NestExpressApplication>(moduleOf(parts), new ExpressAdapter(), {
    rawBody: true,
    logger: false,
    abortOnError: false,
  });
  app.disable("x-powered-by");
  app.useBodyParser("json", { limit: bodyLimitBytes, strict: false });
  app.useGlobalFilters(filterOf(parts.report));
  await app.init();
  return app.getHttpAdapter().getInstance();
};

/** One controller, with a method for each route. */
function moduleOf<Tx>({ latchkey, routes }: FrontEndParts<Tx>): Type {
  const options = {
    tenant: (req: Request) => req.get("X-Tenant"),
    principal: (req: Request) => req.get("X-Principal") || null,
    statusPath,
  };
  const protect = nestProtect(latchkey, options);
  const serve = nestServe(latchkey, options);
  const status = nestStatus(latchkey, options);
  class Routes {}
  const { prototype } = Routes;
  for (const [index, route] of routes.entries()) {
    const name = `route${index}`;
    // Bodies go through the response itself; everything else is returned, for Nest to answer with.
    const answersItself = route.path.startsWith("/bodies");
    const value = async (req: Request, res: Response, context: never) => {
      if (route.execution === "status") return;
      if (route.execution === "served" || route.execution === "deferred") return route.toInput(callOf(req));
      const reply = await (route.execution === "none"
        ? route.handle(callOf(req))
        : route.handle(callOf(req), context));
      return answersItself ? sendReply(res, reply) : valueIn(res, reply);
    };
    const method = { value, writable: true, configurable: true };
    Object.defineProperty(prototype, name, method);
    Req()(prototype, name, 0);
    Res({ passthrough: !answersItself })(prototype, name, 1);
    if (route.execution === "status") {
      UseInterceptors(status)(prototype, name, method);
    } else if (route.execution === "served") {
      UseInterceptors(serve(route.operation))(prototype, name, method);
    } else if (route.execution === "deferred") {
      UseInterceptors(serve(route.operation))(prototype, name, method);
    } else if (route.execution !== "none") {
      createParamDecorator(nestContext)()(prototype, name, 2);
      UseInterceptors(protect<"transaction" | "lease">(route.operation))(prototype, name, method);
    }
    if (route.execution !== "none" || !route.open) UseGuards(tenantGuard)(prototype, name, method);
    const path = route.path.replaceAll(/\{(\w+)\}/gu, ":$1");
    RequestMapping({ path, method: RequestMethod[route.method] })(prototype, name, method);
  }
  Controller()(Routes);
  class App {}
  Module({ controllers: [Routes] })(App);
  return App;
}

class MissingTenant extends Error {}

const tenantGuard = {
  canActivate(host: ExecutionContext): boolean {
    if (host.switchToHttp().getRequest<Request>().get("X-Tenant")) return true;
    throw new MissingTenant();
  },
};

function filterOf(report: (error: unknown) => void): ExceptionFilter {
  class Failures implements ExceptionFilter {
    async catch(error: unknown, host: ArgumentsHost): Promise<void> {
      const res = host.switchToHttp().getResponse<Response>();
      if (error instanceof NotFoundException) return sendReply(res, notFound);
      if (error instanceof MissingTenant) return sendReply(res, tenantRequired);
      report(error);
      if (res.headersSent) res.destroy();
      else await sendReply(res, failure(error));
    }
  }
  Catch()(Failures);
  return new Failures();
}

function callOf(req: Request): Call {
  const { pathname, searchParams } = new URL(req.originalUrl, "http://fixture");
  return {
    method: req.method,
    path: pathname,
    params: req.params as Readonly<Record<string, string>>,
    query: searchParams,
    tenant: req.get("X-Tenant") ?? "",
    key: req.get("Idempotency-Key") ?? null,
    body: async () => req.body,
  };
}

function valueIn(res: Response, { status, headers, body }: Reply): unknown {
  res.status(status);
  for (const [name, value] of headers) res.append(name, value);
  switch (body.kind) {
    case "none":
      return undefined;
    case "json":
      // Nest takes null for nothing, and a number for text.
      if (typeof body.value === "object" && body.value !== null) return body.value;
      res.type("json");
      return JSON.stringify(body.value);
    case "bytes":
      return new StreamableFile(body.bytes);
    case "text":
      return body.text;
    case "chunks":
      return new StreamableFile(Readable.from(oneByOne(body.chunks)));
    default:
      return body satisfies never;
  }
}
