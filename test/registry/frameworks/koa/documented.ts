import type { RequestListener } from "node:http";
import Koa, { type Context } from "koa";
import { koaProtect } from "../../../../packages/latchkey/src/http/koa/koa.ts";
import {
  endlessStream,
  endWithTrailers,
  type Handlers,
  hint,
  limit,
  type MakeListener,
  type Parts,
  pastTheHold,
  single,
} from "../../../docs/handlers.ts";

export const services: Readonly<Record<string, MakeListener>> = { koa: onKoa };

function onKoa({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = koaHandlers[row];
  if (handle === null) return null;
  const protect = koaProtect(service.latchkey, single);
  const app = new Koa();
  app.silent = true;
  app.use((ctx, next) => {
    ctx.set("X-Request", nextRequest());
    return next();
  });
  app.use(
    protect(service.operation(limit), async (ctx: Context) => {
      ran();
      await handle(ctx);
    }),
  );
  return app.callback();
}

const koaHandlers: Handlers<(ctx: Context) => unknown> = {
  phrase(ctx) {
    ctx.status = 201;
    ctx.message = "Made";
    ctx.body = "done";
  },
  trailers(ctx) {
    ctx.respond = false;
    endWithTrailers(ctx.res);
  },
  hints(ctx) {
    ctx.res.writeEarlyHints(hint);
    ctx.body = "done";
  },
  twice(ctx) {
    ctx.res.end("one");
    ctx.res.end("two");
  },
  nothing: async () => {},
  endless(ctx) {
    ctx.body = endlessStream();
  },
  before(ctx) {
    ctx.body = "done";
  },
  aside(ctx) {
    ctx.respond = false;
    ctx.res.end("aside");
  },
  socket(ctx) {
    ctx.req.socket.write(pastTheHold);
    ctx.body = "done";
  },
};
