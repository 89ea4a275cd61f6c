import koaCors from "@koa/cors";
import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import koaCompress from "koa-compress";
import koaConditionalGet from "koa-conditional-get";
import koaEtag from "koa-etag";
import koaHelmet from "koa-helmet";
import { KoaPassport } from "koa-passport";
import koaPino from "koa-pino-logger";
import koaSession from "koa-session";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { accountOf, strategy } from "../../../neighbours/accounts.ts";
import { bySupertest } from "../../../neighbours/callers.ts";
import { corsOptions } from "../../../neighbours/headers.ts";
import { pinoLines } from "../../../neighbours/loggers.ts";
import { routerOf, yogaOf } from "../../../neighbours/schemas.ts";
import { count, secret } from "../../../neighbours/sessions.ts";
import { type Starts, startsOf } from "../../../neighbours/starts.ts";
import { type KoaMount, koaBefore, startKoa } from "./frame.ts";

export const neighbours: Readonly<Record<string, Starts>> = {
  koa: startsOf<KoaMount>(startKoa, {
    helmet: koaBefore(() => [koaHelmet()]),
    cors: koaBefore(() => [koaCors(corsOptions)]),
    compression: koaBefore(() => [koaCompress()]),
    etag: koaBefore(() => [koaConditionalGet(), koaEtag()]),
    sessions({ app, protect, handler }) {
      app.keys = [secret];
      app.use(koaSession({ signed: true }, app));
      const counting = protect((ctx) => {
        count(ctx);
        return handler(ctx);
      });
      app.use(counting);
    },
    accounts({ app, protect, handler }) {
      const passport = new KoaPassport();
      passport.use(strategy());
      app.use(passport.initialize()).use(passport.authenticate("bearer", { session: false }));
      app.use(protect(handler, { tenant: (ctx) => accountOf(ctx.state) }));
    },
    pino({ app, world, protect, handler }) {
      app.use(koaPino({}, pinoLines(world)));
      app.use(protect(handler));
    },
    flexibleLimits: koaBefore(() => {
      const limiter = new RateLimiterMemory({ points: 100, duration: 60 });
      return [
        async (ctx, next) => {
          const { remainingPoints } = await limiter.consume("client");
          ctx.set("X-RateLimit-Remaining", String(remainingPoints));
          await next();
        },
      ];
    }),
    graphqlYoga({ app, world, protect }) {
      const yoga = yogaOf(world);
      const answer = protect(async (ctx) => {
        const response = await yoga.handleNodeRequestAndResponse(ctx.req, ctx.res);
        ctx.status = response.status;
        ctx.set(Object.fromEntries(response.headers));
        ctx.body = await response.text();
      });
      app.use(answer);
    },
    trpc({ app, world, protect }) {
      const router = routerOf(world);
      const answer = protect(async (ctx) => {
        const { method, req: body } = ctx;
        const headers = { "content-type": "application/json" };
        const init: RequestInit = { method, headers, body: body as never, duplex: "half" };
        const response = await fetchRequestHandler({
          endpoint: "/",
          req: new Request(ctx.href, init),
          router,
        });
        ctx.status = response.status;
        ctx.set(Object.fromEntries(response.headers));
        ctx.body = await response.text();
      });
      app.use(answer);
    },
    callers({ app, protect, handler }) {
      app.use(protect(handler));
      return bySupertest(app.callback());
    },
  }),
};
