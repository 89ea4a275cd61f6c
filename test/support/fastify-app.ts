/** Shared by the tests of the Fastify adapter: an app with one protected and one unprotected route. */
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifySchema,
  type RouteHandlerMethod,
} from "fastify";
import { afterEach } from "vitest";
import { fastifyProtect } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import type { HttpSettings } from "../../packages/latchkey/src/http/protocol/http-options.ts";
import type { HandlerContext } from "../../packages/latchkey/src/operations/attempt.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import type { MemoryTransaction } from "../../packages/latchkey/src/stores/memory.ts";
import { type HttpCall, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "./http-service.ts";
import { listen } from "./listen.ts";

export type Handler = (
  request: FastifyRequest,
  reply: FastifyReply,
  context: HandlerContext<MemoryTransaction, "transaction">,
) => unknown;

export const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Surroundings {
  /** Plugins and hooks, before or after the adapter's own. */
  readonly before?: (app: FastifyInstance) => void;
  readonly after?: (app: FastifyInstance) => void;
  readonly schema?: FastifySchema;
  readonly options?: OperationOptions;
  readonly settings?: HttpSettings<FastifyRequest>;
  readonly refusedCommits?: number;
  readonly distant?: boolean;
}

/** `/run` protected, `/plain` not. */
export async function serve(handler: Handler, around: Surroundings = {}) {
  const { before, after, schema = {}, options, settings = {}, refusedCommits = 0, distant = false } = around;
  const service = httpService({ refusedCommits, distant });
  const app = fastify();
  const errors: unknown[] = [];
  app.addHook("onError", async (_request, _reply, error) => void errors.push(error));
  before?.(app);
  const protect = fastifyProtect(app, service.latchkey, {
    ...settings,
    tenant: (request: FastifyRequest) => request.headers["x-tenant"] as string,
  });
  after?.(app);
  app.post("/run", { schema }, protect(service.operation(options), handler));
  app.post("/plain", { schema }, handler as unknown as RouteHandlerMethod);
  await app.ready();
  const { url, close } = await listen(app.routing);
  closing.push(async () => {
    await close();
    await app.close();
  });
  return { ...service, app, url, errors, call: (call: HttpCall = {}) => send(url, call) };
}

export async function* chunks(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) {
    yield Buffer.from(text);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
