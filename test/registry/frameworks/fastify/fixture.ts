import { Readable } from "node:stream";
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type RouteHandlerMethod,
} from "fastify";
import { fastifyProtect, fastifyServe, fastifyStatus } from "latchkey/fastify";
import { bodyLimitBytes, type FrontEndFactory, type FrontEndParts } from "../../../fixture/http/front-end.ts";
import { single } from "../../../fixture/http/node-calls.ts";
import { oneByOne } from "../../../fixture/http/web-reply.ts";
import {
  type Call,
  failure,
  notFound,
  type Reply,
  type Route,
  statusPath,
  tenantRequired,
} from "../../../fixture/route.ts";

export const frontEnd: FrontEndFactory = async (parts) => {
  const app = fastify({ bodyLimit: bodyLimitBytes });
  // Fastify refuses bodies it has no parser for, and JSON that is none because it is empty.
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  mount(app, parts);
  app.setNotFoundHandler((_request, reply) => send(reply, notFound));
  app.setErrorHandler((error: { statusCode?: number }, _request, reply) => {
    parts.report(error);
    return send(reply, failure(Object.assign(error, { status: error.statusCode })));
  });
  await app.ready();
  return app.routing;
};

function mount<Tx>(app: FastifyInstance, { latchkey, routes }: FrontEndParts<Tx>): void {
  const options = {
    tenant: (request: FastifyRequest) => single(request.headers["x-tenant"]),
    principal: (request: FastifyRequest) => single(request.headers["x-principal"]),
    statusPath,
  };
  const protect = fastifyProtect(app, latchkey, options);
  const serve = fastifyServe(app, latchkey, options);
  const status = fastifyStatus(latchkey, options);
  const handlerOf = (route: Route<Tx>): RouteHandlerMethod => {
    switch (route.execution) {
      case "transaction":
        return protect(route.operation, async (request, reply: FastifyReply, context) =>
          send(reply, await route.handle(callOf(request), context)),
        );
      case "lease":
        return protect(route.operation, async (request, reply: FastifyReply, context) =>
          send(reply, await route.handle(callOf(request), context)),
        );
      case "served":
        return serve(route.operation, (request) => route.toInput(callOf(request)));
      case "deferred":
        return serve(route.operation, (request) => route.toInput(callOf(request)));
      case "status":
        return status;
      case "none":
        return async (request, reply) => send(reply, await route.handle(callOf(request)));
      default:
        return route satisfies never;
    }
  };
  for (const route of routes) {
    const url = route.path.replaceAll(/\{(\w+)\}/gu, ":$1");
    const open = route.execution === "none" && route.open;
    const onRequest = async (request: FastifyRequest, reply: FastifyReply) => {
      if (!open && !request.headers["x-tenant"]) await send(reply, tenantRequired);
    };
    app.route({ method: route.method, url, onRequest, handler: handlerOf(route) });
  }
}

function callOf(request: FastifyRequest): Call {
  const { pathname, searchParams } = new URL(request.originalUrl, "http://fixture");
  return {
    method: request.method,
    path: pathname,
    params: request.params as Readonly<Record<string, string>>,
    query: searchParams,
    tenant: single(request.headers["x-tenant"]) ?? "",
    key: single(request.headers["idempotency-key"]),
    body: async () => (request.body instanceof Uint8Array ? undefined : request.body),
  };
}

function send(reply: FastifyReply, { status, headers, body }: Reply): FastifyReply {
  reply.code(status);
  const names = new Set(headers.map(([name]) => name.toLowerCase()));
  for (const name of names) {
    const values = headers.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
    reply.header(name, values.length === 1 ? values[0] : values);
  }
  switch (body.kind) {
    case "none":
      return reply.send();
    case "json":
      return reply.send(body.value);
    case "bytes":
      return reply.send(body.bytes);
    case "text":
      // The lowest-level `end` there is.
      reply.hijack();
      for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value ?? "");
      reply.raw.end(body.text);
      return reply;
    case "chunks":
      return reply.send(Readable.from(oneByOne(body.chunks)));
    default:
      return body satisfies never;
  }
}
