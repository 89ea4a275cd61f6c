/** Shared by the tests of the Koa adapter: an app with one protected route. */
import Koa, { type Context, type Middleware } from "koa";
import { afterEach } from "vitest";
import { koaProtect } from "../../packages/latchkey/src/http/koa/koa.ts";
import type { HttpSettings } from "../../packages/latchkey/src/http/protocol/http-options.ts";
import type { HandlerContext } from "../../packages/latchkey/src/operations/attempt.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import type { MemoryTransaction } from "../../packages/latchkey/src/stores/memory.ts";
import { type HttpCall, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "./http-service.ts";
import { listen } from "./listen.ts";

export type Handler = (ctx: Context, context: HandlerContext<MemoryTransaction, "transaction">) => unknown;

export const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Surroundings {
  readonly before?: Middleware[];
  readonly options?: OperationOptions;
  readonly settings?: HttpSettings<Context>;
}

/** `/run` protected, everything else not. */
export async function serve(handler: Handler, { before = [], options, settings = {} }: Surroundings = {}) {
  const service = httpService();
  const protect = koaProtect(service.latchkey, {
    ...settings,
    tenant: (ctx: Context) => ctx.get("x-tenant"),
  });
  const protectedHandler = protect(service.operation(options), handler);
  const app = new Koa();
  const errors: unknown[] = [];
  app.on("error", (error: unknown) => errors.push(error));
  for (const each of before) app.use(each);
  app.use(async (ctx: Context) => {
    if (ctx.path === "/run") await protectedHandler(ctx);
    else await handler(ctx, {} as HandlerContext<MemoryTransaction, "transaction">);
  });
  const { url, close } = await listen(app.callback());
  closing.push(close);
  return { ...service, url, errors, call: (call: HttpCall = {}) => send(url, call) };
}
