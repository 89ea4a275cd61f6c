import type { RequestListener } from "node:http";
import { Readable } from "node:stream";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import {
  fastifyProtect,
  fastifyServe,
  fastifyStatus,
} from "../../../../packages/latchkey/src/http/fastify/fastify.ts";
import type {
  AppUnderTest,
  HandlerAnswer,
} from "../../../../packages/latchkey-conformance/src/http-conformance/case.ts";
import { lookup, type SuiteApp } from "../../../http/suite-app.ts";
import { listen } from "../../../support/listen.ts";

export const apps: readonly SuiteApp[] = [
  {
    name: "Fastify",
    seesFieldLines: true,
    oneOfItsKind: true,
    serve: async (app) => listen(await fastifyListener(app)),
  },
];

/** With parsers for all that the suite sends: Fastify itself refuses bodies it has no parser for. */
export async function fastifyListener<Tx>(
  under: AppUnderTest<Tx>,
  before: (app: FastifyInstance) => void = () => {},
): Promise<RequestListener> {
  const { latchkey, route, served, settings, tenant, principal } = under;
  const app = fastify({ bodyLimit: 20 * 1024 * 1024, onProtoPoisoning: "ignore" });
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error: { statusCode?: number }, _request, reply) =>
    reply
      .code(error.statusCode ?? 500)
      .type("text/plain")
      .send("failed"),
  );
  before(app);
  const options = {
    ...settings,
    tenant: (request: FastifyRequest) => tenant(lookup(request.headers)),
    principal: (request: FastifyRequest) => principal(lookup(request.headers)),
  };
  const protect = fastifyProtect(app, latchkey, options);
  const handler =
    route.execution === "lease"
      ? protect(route.operation, async (request, reply: FastifyReply, context) =>
          write(reply, await route.handle(async () => sentBytes(request), context)),
        )
      : protect(route.operation, async (request, reply: FastifyReply, context) =>
          write(reply, await route.handle(async () => sentBytes(request), context)),
        );
  app.route({ method: route.method, url: route.path, handler });
  if (served !== undefined) {
    const serve = fastifyServe(app, latchkey, options);
    const handle = serve(served.operation, (request) => served.toInput(async () => sentBytes(request)));
    app.route({ method: served.method, url: served.path, handler: handle });
  }
  if (settings.statusPath !== undefined) {
    app.get(`${settings.statusPath}/:id`, fastifyStatus(latchkey, options));
  }
  await app.ready();
  return app.routing;
}

/** What was sent, as far as a handler can still tell. */
function sentBytes({ body }: FastifyRequest): Uint8Array {
  if (body === undefined) return new Uint8Array(0);
  if (typeof body === "string") return Buffer.from(body);
  return body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body));
}

function write(reply: FastifyReply, { status, headers = [], body, error }: HandlerAnswer): FastifyReply {
  reply.code(status);
  for (const [name, value] of headers) {
    const before = reply.getHeader(name);
    reply.header(name, before === undefined || name === "Set-Cookie" ? value : [before, value].flat());
  }
  if (error !== undefined) throw error;
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) return reply.send(body);
  return reply.send(Readable.from(body));
}
