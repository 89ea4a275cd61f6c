import { Readable } from "node:stream";
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type RouteHandlerMethod,
} from "fastify";
import { fastifyProtect } from "../../../../packages/latchkey/src/http/fastify/fastify.ts";
import type { RouteOptions } from "../../../../packages/latchkey/src/http/protocol/http-options.ts";
import { type Mounting, type Served, withDefaults } from "../../../neighbours/served.ts";
import { operationOf, type World } from "../../../neighbours/world.ts";

export type FastifyHandler = (request: FastifyRequest, reply: FastifyReply) => unknown;

export interface FastifyParts {
  readonly app: FastifyInstance;
  readonly world: World;
  readonly handler: FastifyHandler;
  /** On the app, or on the instance that a plugin was given. */
  protect(
    handler: FastifyHandler,
    overrides?: RouteOptions<FastifyRequest>,
    instance?: FastifyInstance,
  ): RouteHandlerMethod;
}

export type FastifyMount = (parts: FastifyParts) => Mounting;

export async function startFastify(mount: FastifyMount, world: World): Promise<Served> {
  const app = fastify({ logger: { stream: statusesOf(world) } });
  const { service } = world;
  const tenant = (request: FastifyRequest) => String(request.headers["x-tenant"]);
  const protect: FastifyParts["protect"] = (handler, overrides, instance = app) =>
    service === null
      ? handler
      : fastifyProtect(instance, service.latchkey, { tenant })(
          operationOf(world, service),
          handler,
          overrides,
        );
  const handler: FastifyHandler = async (request, reply) => answerOn(reply, await world.run(request.body));
  const mounted = await mount({ app, world, handler, protect });
  await app.ready();
  const served = await withDefaults(mounted, () => app.routing);
  return {
    call: served.call,
    async close() {
      await served.close();
      await app.close();
    },
  };
}

/** Where Fastify's logger writes its lines, of which those of ended requests count here. */
export function statusesOf({ logged }: World): { write(line: string): void } {
  return {
    write(line) {
      const { res } = JSON.parse(line) as { readonly res?: { readonly statusCode: number } };
      if (res !== undefined) logged.push(String(res.statusCode));
    },
  };
}

function answerOn(
  reply: FastifyReply,
  { status, headers, body }: Awaited<ReturnType<World["run"]>>,
): FastifyReply {
  reply.code(status).headers(headers);
  if (body.kind === "json") return reply.send(body.value);
  if (body.kind === "text") return reply.type("text/plain").send(body.text);
  if (body.kind === "stream") return reply.type("text/plain").send(Readable.from(body.chunks));
  return reply.send();
}

/** Plugins before the protected route. */
export function fastifyBefore(
  register: (app: FastifyInstance) => PromiseLike<unknown> | unknown,
): FastifyMount {
  return async ({ app, protect, handler }) => {
    await register(app);
    app.post("/run", protect(handler));
  };
}
