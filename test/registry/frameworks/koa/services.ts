import Router from "@koa/router";
import Koa, { type Context as KoaContext } from "koa";
import { koaProtect, koaServe, koaStatus } from "../../../../packages/latchkey/src/http/koa/koa.ts";
import { breakResponse, type SmallServices, single, statusOptions } from "../../../http/small-services.ts";

/** Requests and responses, whose types are not looked at here. */
type Loose = ReturnType<JSON["parse"]>;

export const services: SmallServices = {
  served({ latchkey, operation }) {
    const serve = koaServe(latchkey, single);
    let requests = 0;
    const app = new Koa();
    app.silent = true;
    app.use(async (ctx, next) => {
      try {
        await next();
      } catch (error) {
        ctx.status = (error as { status?: number }).status ?? 500;
      }
      ctx.set("X-Request", String(++requests));
    });
    app.use(
      serve(operation, (ctx) => {
        if (ctx.request.body.amount === 422) ctx.throw(422);
        return { amount: ctx.request.body.amount };
      }),
    );
    return app.callback();
  },
  status({ latchkey, operation }) {
    let requests = 0;
    const own = { tenant: (_ctx: KoaContext) => "t", statusPath: statusOptions.statusPath };
    const run = koaServe(latchkey, own)(operation, () => null as never);
    const status = koaStatus(latchkey, own);
    return new Koa()
      .use(async (ctx, next) => {
        ctx.set({ "X-Request": String(++requests), "Cache-Control": "public" });
        await next();
      })
      .use((ctx) => (ctx.path === "/v1/run" ? run(ctx) : status(ctx)))
      .callback();
  },
  notStarted: {
    Koa: ({ latchkey, lease }, run) => {
      const app = new Koa();
      app.silent = true;
      const handler = koaProtect(latchkey, single)(lease(), (ctx) => {
        run();
        ctx.status = 201;
      });
      return app
        .use((ctx, next) => {
          breakResponse(ctx.req, ctx.res);
          return next();
        })
        .use(handler as Loose)
        .callback();
    },
  },
  routed: ({ latchkey, lease }, options) => {
    const router = new Router().post(
      "/items/*rest",
      koaProtect(latchkey, single)(lease(options), (ctx) => {
        ctx.body = "done";
      }) as never,
    );
    return new Koa().use(router.routes()).callback();
  },
};
